/** Keeps the list of experiments live. */

import { live } from "./live.js";
import { refreshParts, rest, RestError } from "./rest.js";
import { drawSparkline } from "./sparkline.js";
import { isFinishedExperiment, showStatus, showText } from "./status.js";
import { digits, duration, moment } from "./words.js";

/** Shortest pause between two looks at the whole list, in milliseconds. */
const REFRESH_PAUSE = 1_000;

/** @returns {HTMLTableRowElement[]} */
function rows() {
  return [...document.querySelectorAll("#experiments tr[data-id]")].map((row) => /** @type {HTMLTableRowElement} */ (row));
}

/** @param {Element} row */
function drawRow(row) {
  const place = /** @type {HTMLElement | null} */ (row.querySelector(".sparkline"));
  if (place) drawSparkline(place, JSON.parse(place.dataset.points ?? "[]"), Number(place.dataset.total));
}

/**
 * @param {HTMLTableRowElement} row
 * @param {any} experiment
 */
function fill(row, experiment) {
  const cell = (/** @type {string} */ name) => row.querySelector(`[data-cell="${name}"]`);
  const { progress } = experiment;
  row.dataset.revision = String(experiment.revision);
  showStatus(cell("status"), experiment.status);
  showText(cell("message"), experiment.message);
  showText(cell("trials"), `${progress.ended} / ${experiment.max_trial_number ?? "∞"}`);
  /** @type {HTMLProgressElement} */ (cell("fraction")).value = progress.fraction ?? 0;
  showText(cell("time"), duration(progress.elapsed) + (experiment.max_duration ? ` of ${duration(experiment.max_duration)}` : "")
    + (progress.eta === null ? "" : `, ${duration(progress.eta)} left`));
  const best = /** @type {HTMLAnchorElement} */ (cell("best"));
  showText(best, digits(progress.best_value));
  if (progress.best_trial_id) best.href = `/trials/${progress.best_trial_id}/`;
  cell("started")?.replaceChildren(moment(experiment.started_at));
  cell("changed")?.replaceChildren(moment(new Date()));
  const place = /** @type {HTMLElement} */ (row.querySelector(".sparkline"));
  const points = JSON.parse(place.dataset.points ?? "[]");
  if (progress.best_value !== null && progress.best_value !== points.at(-1)?.[1]) {
    points.push([Math.max(progress.ended - 1, points.at(-1)?.[0] ?? 0), progress.best_value]);
    place.dataset.points = JSON.stringify(points.slice(-80));
  }
  place.dataset.total = String(progress.total);
  drawRow(row);
  const archive = /** @type {HTMLButtonElement | null} */ (row.querySelector("[data-archive]"));
  if (archive) archive.hidden = !isFinishedExperiment(experiment.status) && !experiment.archived;
}

let refreshing = false;
let refreshAgain = false;
/** A form was sent: its answer is on its way, and loading this page anew would call it off. */
let leaving = false;

window.addEventListener("submit", (event) => {
  leaving ||= !event.defaultPrevented;
});
window.addEventListener("pageshow", () => {
  leaving = false;
});

/** The list as the server has it now: for rows that came or went, and for the counts. */
async function refresh() {
  if (refreshing) {
    refreshAgain = true;
    return;
  }
  refreshing = true;
  try {
    const had = document.getElementById("counts") !== null;
    const fresh = await refreshParts(["experiments", "counts"]);
    const first = !had && fresh.getElementById("counts") !== null;
    if (first && !leaving) location.reload(); // the first experiment: filters come with it
    rows().forEach(drawRow);
  } catch {
    refreshAgain = true;
  }
  setTimeout(() => {
    refreshing = false;
    if (refreshAgain) {
      refreshAgain = false;
      refresh();
    }
  }, REFRESH_PAUSE);
}

/** Experiments that are not on this page, with the status they had when we looked. @type {Map<string, string>} */
const elsewhere = new Map();

/** @param {any} frame */
function heard(frame) {
  if (frame.again) {
    refresh();
    return;
  }
  const notice = document.getElementById("no-worker");
  if (notice) notice.hidden = frame.worker_alive;
  const shown = new Map(rows().map((row) => [row.dataset.id, row]));
  let structure = frame.gone.some((/** @type {string} */ id) => shown.has(id));
  for (const experiment of frame.experiments) {
    const row = shown.get(experiment.id);
    if (!row) {
      // it may be new, or on another page: one look per status tells
      structure ||= elsewhere.get(experiment.id) !== experiment.status;
      elsewhere.set(experiment.id, experiment.status);
    } else {
      structure ||= row.querySelector('[data-cell="status"]')?.textContent !== experiment.status;
      fill(row, experiment);
    }
  }
  if (structure) refresh();
}

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-archive]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  button.disabled = true;
  const id = button.closest("tr")?.dataset.id;
  try {
    await rest("PATCH", `experiments/${id}/`, { archived: button.dataset.archive === "true" });
    refresh();
  } catch (error) {
    button.disabled = false;
    button.title = error instanceof RestError ? error.sentences : String(error);
    button.textContent = button.title;
  }
});

rows().forEach(drawRow);
live.watchList(() => Object.fromEntries(rows().map((row) => [row.dataset.id, Number(row.dataset.revision)])), heard);
