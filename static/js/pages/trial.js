/** Keeps a trial's page live; cancels the trial, runs it again, tags it. */

import { showError } from "../ui/action_error.js";
import { byteSize } from "../lib/byte_size.js";
import { confirmed } from "../ui/confirm.js";
import { writeAddress } from "../experiment/address_state.js";
import { live } from "../lib/live.js";
import { MetricChart } from "../charts/metric_chart.js";
import { jobsOf, showMessage } from "../ui/named_trials.js";
import { noReadings } from "../trial/no_readings.js";
import { OutputFiles } from "../trial/output_files.js";
import { RankOutput } from "../trial/rank_output.js";
import { OutputView } from "../trial/output_view.js";
import { askForChanges } from "../ui/rerun_form.js";
import { ResourceChart } from "../charts/resource_chart.js";
import { mayPass, rest } from "../lib/rest.js";
import { refreshParts } from "../ui/refreshed_parts.js";
import { startTensorBoard } from "../ui/tensorboard.js";
import { isAtRest, isEnd, showMeaning, showStatus, showText } from "../ui/status.js";
import { startNotes } from "../ui/notes.js";
import { TagEditor } from "../ui/tag_editor.js";
import { digits, duration, heardWords, meanWithError, statusWord } from "../lib/formats.js";
import { exactTexts } from "../lib/exact_json.js";
import { FORMS } from "../lib/parameter_text.js";
import { keptCode } from "../lib/rerun_words.js";
import { copyText } from "../ui/copy.js";
import { moment } from "../ui/times.js";

/** Readings come every ten seconds; after a longer break those in between are asked for. In milliseconds. */
const LONG_BREAK = 45_000;
/** Pause after output and metrics could not be taken anew, in milliseconds. */
const CATCH_UP_PAUSE = 3_000;

/** @param {Document} from */
function pageData(from) {
  return JSON.parse(from.getElementById("page-data")?.textContent ?? "{}");
}

const page = pageData(document);
const id = page.trial.id;
let trial = page.trial;
/** When the trial was as it is here, by the page's own clock. */
let trialAt = performance.now();
/** When its keeper was heard last, as it was said at `heardAt` by the page's own clock. @type {{ago: number, within: number} | null} */
let { heard } = page;
let heardAt = performance.now();
/** The attempt whose output, metrics and readings are shown. */
let attempt = page.attempt;
/** The address says which: a newer one does not take its place. */
const pinned = new URLSearchParams(location.search).has("attempt");
const chart = new MetricChart(/** @type {HTMLElement} */ (document.getElementById("metric-chart")), page.curve, page.left_out);
const resources = new ResourceChart(page.readings, () => page.missing.readings || noReadings(run()));
startNotes();

const tags = new TagEditor(/** @type {HTMLElement} */ (document.querySelector(".headline .tags")),
  (all) => rest("PATCH", `trials/${id}/`, { tags: all }));
const filesThere = document.getElementById("output-files");
if (filesThere) new OutputFiles(filesThere, id, () => attempt);
new RankOutput(/** @type {HTMLElement} */ (document.getElementById("rank-output")), id, () => attempt);
document.querySelector("[data-tensorboard]")?.addEventListener("click", () => {
  startTensorBoard(page.trial.experiment, [id]).then(() => showError(null), showError);
});
/** @type {Map<string, OutputView>} */
const outputs = new Map();

/** @param {Record<string, {begins: number, next: number}>} streams */
function beginOutputs(streams) {
  for (const section of document.querySelectorAll("[data-stream]")) {
    const name = /** @type {HTMLElement} */ (section).dataset.stream ?? "";
    outputs.set(name, new OutputView(/** @type {HTMLElement} */ (section), streams[name], (stream, offset, limit) => rest("GET",
      `trials/${id}/output/?${new URLSearchParams({ stream, attempt: String(attempt), offset: String(offset), limit: String(limit) })}`)));
  }
}

// --- what the page shows ---------------------------------------------------------------------

/** @param {string} name */
function cell(name) {
  return document.querySelector(`[data-cell="${name}"]`);
}

/** @param {any} now */
function show(now) {
  trial = now;
  trialAt = performance.now();
  showStatus(cell("status"), now.status);
  const why = /** @type {HTMLElement} */ (cell("message"));
  showMessage(why, now.message, jobsOf(now.reason));
  why.className = `reason ${now.status}`;
  why.hidden = !now.message;
  showMeaning(now.reason);
  const result = /** @type {HTMLElement} */ (cell("result"));
  showText(result, digits(now.final_number));
  result.title = now.final_value ?? "";
  showMetrics(now);
  showRank(now);
  showRanks(now);
  showText(cell("latest"), latestWords(now));
  showDuration();
  if (now.started_at) cell("times")?.replaceChildren("started ", moment(now.started_at));
  showText(cell("machine"), now.machine || "–");
  showText(cell("cluster"), now.cluster ? `on ${now.cluster}` : "");
  showText(cell("gpus"), now.gpu_indices?.length ? `GPU ${now.gpu_indices.join(", ")}` : "no GPU");
  const { proposal } = now;
  if (proposal) showText(cell("mean"), meanWithError(proposal.mean, proposal.standard_error, proposal.value_count));
  showText(cell("exit_code"), now.exit_code === null ? "–" : String(now.exit_code));
  showText(cell("attempt"), now.attempt > 1 ? `attempt ${now.attempt}` : "");
  tags.show(now.tags);
  if (resources.readings.length === 0) resources.show();
  showRefresh(now);
  const ended = isEnd(now.status);
  const possible = { refresh: !ended, freeze: !ended && now.target === "RUN", thaw: !ended && isAtRest(now.target), cancel: !ended, rerun: ended };
  for (const [action, is] of Object.entries(possible)) {
    const button = document.querySelector(`#controls [data-action="${action}"]`);
    if (button instanceof HTMLButtonElement) button.hidden = !is;
  }
}

/** The result of which the rank is shown. */
let ranked = page.trial.final_number;

/** The server counts where a new result stands. @param {any} now */
function showRank(now) {
  if (now.final_number === ranked && isEnd(now.status) === isEnd(page.trial.status)) return;
  ranked = now.final_number;
  page.trial.status = now.status;
  refreshParts(["rank"]).catch(() => {}); // the light says that there is no connection
}

/** The status with which its ranks are shown. */
let ranksShownWith = page.trial.status;

/** Of a trial with several nodes: where they are, and how they are. @param {any} now */
function showRanks(now) {
  if (page.nodes < 2 || now.status === ranksShownWith) return;
  ranksShownWith = now.status;
  refreshParts(["ranks"]).catch(() => {}); // the light says that there is no connection
}

/** What a trial has reported last, beside its result. @param {any} now */
function latestWords(now) {
  if (!now.intermediate_count) return "";
  if (now.status === "EARLY_STOPPED" && now.final_number === null) return `Stopped early; last value ${digits(now.latest_number)}`;
  return `latest of ${now.intermediate_count}: ${digits(now.latest_number)}`;
}

/** What the platform was asked because a person wanted it. @param {any} now */
function showRefresh(now) {
  const line = /** @type {HTMLElement} */ (document.getElementById("refresh"));
  const { asked_at: asked, answered_at: answered, message } = now.refresh;
  line.hidden = isEnd(now.status) || !(asked || answered);
  if (asked) line.replaceChildren("The platform is being asked about it, since ", moment(asked), ".");
  else if (answered && message) line.replaceChildren("The platform was asked about it ", moment(answered), ` and did not say how it is: ${message}`);
  else if (answered) line.replaceChildren("The platform was asked about it ", moment(answered), "; what is shown here is what it said.");
}

/** Further metrics: the final number, until there is one the latest. @param {any} now */
function showMetrics(now) {
  const rows = Object.entries(now.metrics).map(([name, { final, latest }]) => {
    const row = document.createElement("div");
    const [title, number] = [document.createElement("dt"), document.createElement("dd")];
    title.textContent = name;
    number.textContent = digits(final ?? latest);
    number.title = `latest ${digits(latest)}`;
    row.append(title, number);
    return row;
  });
  document.getElementById("metrics")?.replaceChildren(...rows);
  document.getElementById("other-metrics")?.toggleAttribute("hidden", rows.length === 0);
  document.getElementById("on-front")?.toggleAttribute("hidden", !now.on_front);
}

/** The attempt that is shown, as far as its machine goes. */
function run() {
  return pinned && page.run ? page.run : { ...trial, ended: isEnd(trial.status) };
}

/** A running trial's duration goes on, also where nothing is heard of it. */
function showDuration() {
  const since = trial.duration !== null && !isEnd(trial.status) ? (performance.now() - trialAt) / 1000 : 0;
  showText(cell("duration"), duration(trial.duration === null ? null : trial.duration + since));
}

/** How long ago that was grows, until more is heard. */
function showHeard() {
  showText(cell("heard"), heardWords(heard && { ...heard, ago: heard.ago + (performance.now() - heardAt) / 1000 }));
}

/** @param {{message: string, look_at: string}[]} advice */
function showAdvice(advice) {
  const list = /** @type {HTMLElement} */ (document.getElementById("advice"));
  list.hidden = advice.length === 0;
  const written = JSON.stringify(advice);
  if (list.dataset.written === written) return; // so that what is read out or selected stays
  list.dataset.written = written;
  list.replaceChildren(...advice.map(({ message, look_at: place }) => {
    const item = document.createElement("li");
    item.append(message);
    if (page.places[place]) {
      const link = document.createElement("a");
      link.href = page.places[place].address;
      link.textContent = `Go to ${page.places[place].words}`;
      item.append(" ", link);
    }
    return item;
  }));
}

/** @param {any[]} events */
function showEvents(events) {
  const list = document.getElementById("events");
  if (!list || list.children.length === events.length) return;
  list.replaceChildren(...events.map((event, index) => {
    const item = document.createElement("li");
    const kind = words("", statusWord(event.kind));
    if (event.kind === event.kind.toUpperCase()) kind.firstElementChild?.classList.add("status", event.kind);
    if (event.actor) kind.append(" ", words("quiet", `by ${event.actor}`).firstElementChild ?? "");
    const at = words("quiet small", "");
    at.append(moment(event.at));
    const seconds = index ? (new Date(event.at).getTime() - new Date(events[index - 1].at).getTime()) / 1000 : null;
    const after = words("quiet small", seconds === null ? "" : `after ${duration(Math.max(0, seconds))}`);
    const said = words("small", "");
    said.textContent = event.message;
    item.append(at, " ", kind, " ", after, " ", said);
    return item;
  }));
}

/**
 * @param {string} name  classes of the outer span
 * @param {string} text
 */
function words(name, text) {
  const outer = document.createElement("span");
  outer.className = name;
  if (!text) return outer;
  const inner = document.createElement("span");
  inner.textContent = text;
  outer.append(inner);
  return outer;
}

/** @param {{id: number, attempt: number, name: string, size: number}[]} files */
function showFiles(files) {
  const section = /** @type {HTMLElement} */ (document.getElementById("files"));
  const list = /** @type {HTMLElement} */ (section.querySelector("ul"));
  section.hidden = files.length === 0 && !page.removed.files;
  const written = JSON.stringify(files);
  if (section.dataset.written === written) return;
  section.dataset.written = written;
  list.replaceChildren(...files.map((file) => {
    const link = document.createElement("a");
    link.href = `/api/v1/trials/${id}/files/${file.id}/`;
    link.download = "";
    link.textContent = file.name;
    const item = document.createElement("li");
    item.append(link, " ", words("quiet small", byteSize(file.size) + (file.attempt > 1 ? `, attempt ${file.attempt}` : "")));
    return item;
  }));
}

/**
 * The way to a trial that was made after this page was opened.
 * @param {string | null} next
 */
function showNext(next) {
  const place = document.getElementById("neighbours");
  if (!next || !place || place.querySelector('[rel="next"]')) return;
  const link = document.createElement("a");
  link.rel = "next";
  link.href = `/trials/${next}/`;
  link.textContent = "Next";
  place.append(" ", link);
}

/** @param {(import("../charts/resource_chart.js").Reading & {attempt: number}) | null} reading */
async function showReading(reading) {
  if (!reading || reading.attempt !== attempt) return;
  const at = new Date(reading.at).getTime();
  if (at <= resources.lastAt) return;
  if (resources.lastAt && at - resources.lastAt > LONG_BREAK) {
    resources.replace((await rest("GET", `trials/${id}/resources/?attempt=${attempt}`)).readings);
  } else resources.add(reading);
}

// --- live ------------------------------------------------------------------------------------

/** Another attempt began: it writes and reports from the beginning. */
function nextAttempt() {
  refreshParts(["attempts", "ranks", "checkpoints", "whereabouts", "earlier-attempt"]).catch(() => {});
  if (pinned) return;
  attempt = trial.attempt;
  outputs.forEach((output) => output.restart());
  for (const link of document.querySelectorAll("[data-download]")) {
    const name = /** @type {HTMLElement | null} */ (link.closest("[data-stream]"))?.dataset.stream;
    link.setAttribute("href", `/api/v1/trials/${id}/output/text/?stream=${name}&attempt=${attempt}`);
  }
  chart.replace([], 0);
  resources.replace([]);
}

/** More came than a frame carries: take output and metrics as the page would begin with them now. */
async function catchUp() {
  const searched = [...document.querySelectorAll("[data-find]")].map((field) => /** @type {HTMLInputElement} */ (field).value);
  const followed = [...document.querySelectorAll("[data-follow]")].map((field) => /** @type {HTMLInputElement} */ (field).checked);
  const now = pageData(await refreshParts(["outputs", "attempts", "ranks", "checkpoints"]));
  document.querySelectorAll("[data-find]").forEach((field, index) => {
    /** @type {HTMLInputElement} */ (field).value = searched[index] ?? "";
  });
  document.querySelectorAll("[data-follow]").forEach((field, index) => {
    /** @type {HTMLInputElement} */ (field).checked = followed[index] ?? true;
  });
  attempt = now.attempt;
  beginOutputs(now.streams);
  chart.replace(now.curve, now.left_out);
  resources.replace(now.readings);
}

/** What is heard meanwhile would be written into what is about to be replaced, or come behind what is missing. */
let catchingUp = false;
let catchUpAgain = false;
let catchUpFailed = false;

async function catchUpOnce() {
  if (catchingUp) {
    catchUpAgain = true;
    return;
  }
  catchingUp = true;
  try {
    await catchUp();
    if (catchUpFailed) showError(null);
    catchUpFailed = false;
  } catch (error) {
    showError(error);
    catchUpFailed = true;
    if (mayPass(error)) {
      catchUpAgain = true;
      await new Promise((resolve) => setTimeout(resolve, CATCH_UP_PAUSE));
    }
  }
  catchingUp = false;
  if (catchUpAgain) {
    catchUpAgain = false;
    catchUpOnce();
  }
}

/** The parameter sets and their results as they were shown last. */
let shownSets = setsOf(page.trial);

/** @param {any} now */
function setsOf(now) {
  return JSON.stringify([now.parameter_set_count, now.result_index, now.final_number, now.parameter_sets]);
}

/** Several parameter sets: one more came, or a result. @param {any} now */
function showSets(now) {
  if (now.parameter_set_count < 2 || setsOf(now) === shownSets) return;
  shownSets = setsOf(now);
  refreshParts(["parameter-sets", "parameters"]).catch(showError);
}

/** How often an attempt had gone on from a checkpoint when the last frame came. @type {number | null} */
let resumes = null;

live.watch(`trial/${id}`, page.revision, (frame) => {
  if (frame.gone) {
    showError("This trial was deleted, or you may no longer see it.");
    return;
  }
  const before = trial.attempt;
  show(frame.trial);
  heard = frame.heard;
  heardAt = performance.now();
  showHeard();
  showAdvice(frame.advice);
  showEvents(frame.events);
  showFiles(frame.files);
  showNext(frame.next);
  showSets(frame.trial);
  if (frame.trial.attempt > before) nextAttempt();
  // an attempt that goes on from a checkpoint has a curve already
  const resumesNow = frame.events.filter((/** @type {any} */ event) => event.kind === "resumed").length;
  const isResumed = resumesNow > (resumes ?? (frame.revision > page.revision ? 0 : resumesNow));
  resumes = resumesNow;
  if (!frame.complete || catchingUp || isResumed) {
    catchUpOnce();
    return;
  }
  for (const metric of frame.metrics) {
    if (metric.attempt === attempt && metric.kind === "PERIODICAL" && metric.number !== null) chart.take(metric.joined_sequence, metric.number);
  }
  if (frame.metrics.length) chart.changed();
  for (const piece of frame.output) {
    if (piece.attempt === attempt) outputs.get(piece.stream)?.take(piece);
  }
  showReading(frame.reading).catch(() => {});
});

// --- what one does ---------------------------------------------------------------------------

/** @param {string} action */
async function act(action) {
  if (action === "change") {
    const made = await askForChanges(trial, page.search_space, page.exact);
    if (made) location.assign(`/trials/${made.id}/`);
    return;
  }
  if (action === "refresh") {
    show(await rest("POST", `trials/${id}/actions/refresh/`));
    return;
  }
  if (action !== "thaw" && !await confirmed(question(action))) return;
  const answer = await rest("POST", `trials/${id}/actions/${action}/`);
  if (action === "rerun") location.assign(`/trials/${answer.id}/`);
  else show(answer);
}

/** @param {string} action */
function question(action) {
  if (action === "cancel") return { title: "Stop this trial?", text: "The trial ends now. Metrics that it has not reported yet are lost.", action: "Stop trial" };
  if (action === "rerun") return { title: "Run this trial again?", text: `A new trial with the same parameters is queued. It counts towards the trial limit. Where the limit is reached, it grows by one.${keptCode(trial)}`, action: "Run again", loses: false };
  const saved = document.querySelector("#checkpoints tbody tr");
  const from = saved ? "from its last checkpoint" : "from the beginning, unless it saves a checkpoint now: it has saved none so far";
  return { title: "Freeze this trial?", text: `The trial is asked to save a checkpoint and ends. It continues ${from}, when somebody thaws it.`, action: "Freeze trial" };
}

for (const button of document.querySelectorAll("[data-copy-as]")) {
  button.addEventListener("click", () => copyText(FORMS[/** @type {HTMLElement} */ (button).dataset.copyAs ?? "json"](exactTexts(trial.parameters ?? {}, page.exact.parameters)), button));
}

document.getElementById("controls")?.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-action]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  button.disabled = true;
  showError(null);
  try {
    await act(button.dataset.action ?? "");
  } catch (error) {
    showError(error, button);
  }
  button.disabled = false;
});

const logarithmic = /** @type {HTMLInputElement} */ (document.getElementById("log-axis"));
chart.logarithmic = logarithmic.checked = new URLSearchParams(location.search).has("log");
logarithmic.addEventListener("change", () => {
  chart.logarithmic = logarithmic.checked;
  writeAddress({ log: logarithmic.checked ? "1" : null });
  chart.redraw?.();
});

showRefresh(page.trial);
showAdvice(page.advice);
showFiles(page.files);
beginOutputs(page.streams);
chart.start();
resources.show();
setInterval(() => {
  if (document.visibilityState !== "visible") return;
  showDuration();
  showHeard();
}, 1_000);
