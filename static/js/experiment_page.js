/** Keeps an experiment's page live, and steers the experiment. */

import { confirmed } from "./confirm.js";
import { live } from "./live.js";
import { refreshParts, rest, RestError } from "./rest.js";
import { ResultChart } from "./result_chart.js";
import { isFinishedExperiment, showStatus, showText } from "./status.js";
import { showError, TrialsTable } from "./trials_table.js";
import { digits, duration } from "./words.js";

/** Shortest pause between two looks at everything, when more changes than frames carry; in milliseconds. */
const REFRESH_PAUSE = 3_000;

const page = JSON.parse(document.getElementById("page-data")?.textContent ?? "{}");
const id = page.experiment.id;
const chart = new ResultChart(/** @type {HTMLElement} */ (document.getElementById("result-chart")), page.experiment);
const table = new TrialsTable(page);
let experiment = page.experiment;

/** @param {string} name */
function cells(name) {
  return document.querySelectorAll(`[data-cell="${name}"]:not(table *)`);
}

/** @param {any} now */
function show(now) {
  const before = experiment;
  experiment = now;
  const { progress } = now;
  const write = (/** @type {string} */ name, /** @type {string} */ text) => cells(name).forEach((cell) => showText(cell, text));
  cells("status").forEach((cell) => showStatus(cell, now.status));
  write("message", now.message);
  write("best", digits(progress.best_value));
  if (progress.best_trial_id) {
    cells("best").forEach((link) => link.setAttribute("href", `/trials/${progress.best_trial_id}/`));
    if (progress.best_trial_id !== before.progress.best_trial_id) write("best_trial", "");
  }
  write("ended", String(progress.ended));
  cells("fraction").forEach((bar) => {
    /** @type {HTMLProgressElement} */ (bar).value = progress.fraction ?? 0;
  });
  write("elapsed", duration(progress.elapsed));
  write("eta", duration(progress.eta));
  write("running", String(progress.trials.RUNNING));
  write("max_trial_number", String(now.max_trial_number ?? "∞"));
  write("max_duration", now.max_duration === null ? "∞" : duration(now.max_duration));
  write("trial_concurrency", String(now.trial_concurrency));
  for (const item of document.querySelectorAll("#counts li")) {
    const count = progress.trials[/** @type {HTMLElement} */ (item).dataset.status ?? ""];
    showText(item.querySelector("[data-count]"), String(count));
    /** @type {HTMLElement} */ (item).hidden = !count;
  }
  showControls();
  const told = ["status", "target", "message", "trial_concurrency", "max_trial_number", "max_duration", "archived"];
  if (told.some((name) => before[name] !== now[name])) refreshParts(["events"]).catch(() => {});
}

function showControls() {
  const finished = isFinishedExperiment(experiment.status);
  const stopping = experiment.status === "STOPPING" || experiment.target === "STOP";
  const paused = experiment.status === "PAUSED";
  const possible = {
    pause: !finished && !stopping && !paused, resume: paused || finished, stop: !finished && !stopping,
    archive: finished, delete: finished,
    "rerun-failed": experiment.progress.trials.FAILED > 0 && !stopping && (!finished || experiment.status === "DONE"),
  };
  for (const [action, is] of Object.entries(possible)) {
    const button = document.querySelector(`#controls [data-action="${action}"]`);
    if (button instanceof HTMLButtonElement) {
      button.hidden = !is;
      if (action === "archive") button.textContent = experiment.archived ? "Bring back" : "Archive";
    }
  }
}

/** @param {string} action */
async function act(action) {
  const left = experiment.progress.total - experiment.progress.ended;
  if (action === "stop" && !await confirmed({
    title: "Stop the experiment?",
    text: `${left === 1 ? "1 unfinished trial is" : `${left} unfinished trials are`} ended; what they have not reported is lost. `
      + "Results so far stay, and the experiment can be resumed with new trials.",
    action: "Stop it",
  })) return;
  if (action === "delete" && !await confirmed({
    title: "Delete the experiment?",
    text: `Its ${experiment.progress.total} trials with their results and output are removed for good, and what they left on the platform.`,
    action: "Delete it",
  })) return;
  const failed = experiment.progress.trials.FAILED;
  if (action === "rerun-failed" && !await confirmed({
    title: "Run failed trials again?",
    text: `Of ${failed === 1 ? "the failed trial" : `the ${failed} failed trials`} each gets a new trial with the same parameters, unless it has `
      + "one already. The number of trials that the experiment may have grows by as many.",
    action: "Run them again",
  })) return;
  showError(null);
  try {
    if (action === "delete") {
      await rest("DELETE", `experiments/${id}/`);
      location.assign("/");
    } else if (action === "archive") show(await rest("PATCH", `experiments/${id}/`, { archived: !experiment.archived }));
    else show(await rest("POST", `experiments/${id}/actions/${action}/`));
  } catch (error) {
    showError(error);
  }
}

document.getElementById("controls")?.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-action]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  button.disabled = true;
  await act(button.dataset.action ?? "");
  button.disabled = false;
});

for (const details of document.querySelectorAll("details.editable")) {
  const form = /** @type {HTMLFormElement} */ (details.querySelector("form"));
  const input = /** @type {HTMLInputElement} */ (form.querySelector("input"));
  const error = /** @type {HTMLElement} */ (form.querySelector(".error"));
  const close = () => {
    details.removeAttribute("open");
    error.hidden = true;
    details.querySelector("summary")?.focus();
  };
  details.addEventListener("toggle", () => /** @type {HTMLDetailsElement} */ (details).open && input.select());
  details.addEventListener("keydown", (event) => /** @type {KeyboardEvent} */ (event).key === "Escape" && close());
  form.querySelector("[data-cancel]")?.addEventListener("click", close);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    const value = text === "" ? null : input.type === "number" ? Number(text) : text;
    try {
      show(await rest("PATCH", `experiments/${id}/`, { [input.name]: value }));
      input.removeAttribute("aria-invalid");
      close();
    } catch (problem) {
      error.textContent = problem instanceof RestError ? problem.sentences : String(problem);
      error.hidden = false;
      input.setAttribute("aria-invalid", "true");
      input.focus();
    }
  });
}

for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    chart.byTime = /** @type {HTMLElement} */ (button).dataset.axis === "time";
    for (const other of document.querySelectorAll("[data-axis]")) other.setAttribute("aria-pressed", String(other === button));
    chart.redraw?.();
  });
}
document.getElementById("log-axis")?.addEventListener("change", (event) => {
  chart.logarithmic = /** @type {HTMLInputElement} */ (event.target).checked;
  chart.redraw?.();
});

let refreshing = false;
let refreshAgain = false;

/** More changed than a frame carries: take chart and table anew. */
async function refreshAll() {
  if (refreshing) {
    refreshAgain = true;
    return;
  }
  refreshing = true;
  await Promise.allSettled([chart.load(), table.refresh()]);
  setTimeout(() => {
    refreshing = false;
    if (refreshAgain) {
      refreshAgain = false;
      refreshAll();
    }
  }, REFRESH_PAUSE);
}

live.watch(`experiment/${id}`, experiment.revision, (frame) => {
  if (frame.gone) {
    showError("This experiment was deleted, or is not yours to see any more.");
    return;
  }
  show(frame.experiment);
  if (!frame.complete) {
    refreshAll();
    return;
  }
  chart.heard(frame.trials);
  table.heard(frame.trials);
});
showControls();
chart.start();
