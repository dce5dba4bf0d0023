/** Keeps a trial's page live, and cancels or reruns the trial. */

import { confirmed } from "./confirm.js";
import { live } from "./live.js";
import { MetricChart } from "./metric_chart.js";
import { OutputView } from "./output_view.js";
import { rest } from "./rest.js";
import { isEnd, showStatus, showText } from "./status.js";
import { showError } from "./action_error.js";
import { digits, duration, moment } from "./words.js";

const page = JSON.parse(document.getElementById("page-data")?.textContent ?? "{}");
const id = page.trial.id;
let attempt = page.trial.attempt;
const chart = new MetricChart(/** @type {HTMLElement} */ (document.getElementById("metric-chart")), page.curve, page.left_out);
/** @type {Map<string, OutputView>} */
const outputs = new Map();
for (const section of document.querySelectorAll("[data-stream]")) {
  const name = /** @type {HTMLElement} */ (section).dataset.stream ?? "";
  outputs.set(name, new OutputView(/** @type {HTMLElement} */ (section), page.streams[name]));
}

/** @param {any} trial */
function show(trial) {
  const cell = (/** @type {string} */ name) => document.querySelector(`[data-cell="${name}"]`);
  showStatus(cell("status"), trial.status);
  const why = /** @type {HTMLElement} */ (cell("message"));
  showText(why, trial.message);
  why.className = `reason ${trial.status}`;
  why.hidden = !trial.message;
  showText(cell("result"), digits(trial.final_number));
  showText(cell("latest"), trial.intermediate_count ? `latest of ${trial.intermediate_count}: ${digits(trial.latest_number)}` : "");
  showText(cell("duration"), duration(trial.duration));
  cell("times")?.replaceChildren(moment(trial.started_at));
  showText(cell("machine"), trial.machine || "–");
  showText(cell("gpus"), trial.gpu_indices?.length ? `GPU ${trial.gpu_indices.join(", ")}` : "no GPU");
  showText(cell("exit_code"), trial.exit_code === null ? "–" : String(trial.exit_code));
  showText(cell("attempt"), trial.attempt > 1 ? `attempt ${trial.attempt}` : "");
  for (const button of document.querySelectorAll("#controls button")) {
    if (button instanceof HTMLButtonElement) button.hidden = (button.dataset.action === "cancel") === isEnd(trial.status);
  }
}

/** @param {any[]} events */
function showEvents(events) {
  const list = document.getElementById("events");
  if (!list || list.children.length === events.length) return;
  list.replaceChildren(...events.map((event) => {
    const item = document.createElement("li");
    const at = document.createElement("span");
    at.className = "quiet small";
    at.append(moment(event.at));
    const kind = document.createElement("span");
    kind.textContent = event.kind;
    if (event.actor) {
      const by = document.createElement("span");
      by.className = "quiet";
      by.textContent = ` by ${event.actor}`;
      kind.append(by);
    }
    const words = document.createElement("span");
    words.className = "small";
    words.textContent = event.message;
    item.append(at, " ", kind, " ", words);
    return item;
  }));
}

live.watch(`trial/${id}`, page.revision, (frame) => {
  if (frame.gone) {
    showError("This trial was deleted, or is not yours to see any more.");
    return;
  }
  if (!frame.complete) {
    location.reload(); // more than a frame carries: what the page begins with is thinned on the server
    return;
  }
  show(frame.trial);
  showEvents(frame.events);
  if (frame.trial.attempt > attempt) {
    attempt = frame.trial.attempt;
    outputs.forEach((output) => output.restart());
    chart.restart();
  }
  for (const metric of frame.metrics) {
    if (metric.attempt === attempt && metric.kind === "PERIODICAL" && metric.number !== null) chart.take(metric.sequence, metric.number);
  }
  if (frame.metrics.length) chart.changed();
  for (const piece of frame.output) {
    if (piece.attempt === attempt) outputs.get(piece.stream)?.take(piece);
  }
});

document.getElementById("controls")?.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-action]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  const cancel = button.dataset.action === "cancel";
  const sure = await confirmed(cancel
    ? { title: "Cancel this trial?", text: "It ends now; what it has not reported yet is lost.", action: "Cancel the trial" }
    : { title: "Run it again?", text: "A new trial with the same parameters is queued. It counts towards the most trials.", action: "Run it again" });
  if (!sure) return;
  button.disabled = true;
  showError(null);
  try {
    const trial = await rest("POST", `trials/${id}/actions/${button.dataset.action}/`);
    if (cancel) show(trial);
    else location.assign(`/trials/${trial.id}/`);
  } catch (error) {
    showError(error);
  } finally {
    button.disabled = false;
  }
});

document.getElementById("log-axis")?.addEventListener("change", (event) => {
  chart.logarithmic = /** @type {HTMLInputElement} */ (event.target).checked;
  chart.redraw?.();
});
chart.start();
