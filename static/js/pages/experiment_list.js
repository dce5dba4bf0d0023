/** Keeps the list of experiments live; archives, deletes and tags. */

import { ThrottledReload } from "../lib/throttled_reload.js";
import { showError } from "../ui/action_error.js";
import { confirmed } from "../ui/confirm.js";
import { live } from "../lib/live.js";
import { rest } from "../lib/rest.js";
import { keepWhileSame, refreshParts } from "../ui/refreshed_parts.js";
import { drawSparkline } from "../charts/sparkline.js";
import "../ui/menus.js";
import { drawSegments } from "../ui/segments.js";
import { isFinishedExperiment, showStatus, showText } from "../ui/status.js";
import { TagEditor } from "../ui/tag_editor.js";
import { best, duration, outcome } from "../lib/formats.js";
import { ago, showAgo } from "../ui/times.js";

/** Shortest pause between two looks at the whole list, in milliseconds. */
const REFRESH_PAUSE = 1_000;

/** @returns {HTMLTableRowElement[]} */
function rows() {
  return [...document.querySelectorAll("#experiments tr[data-id]")].map((row) => /** @type {HTMLTableRowElement} */ (row));
}

/**
 * @param {Element} row
 * @param {string} name
 */
function cell(row, name) {
  return row.querySelector(`[data-cell="${name}"]`);
}

// --- one row ---------------------------------------------------------------------------------

/** When a row's times were true, by the page's own clock; the tags beside its name. @type {WeakMap<Element, {at: number, tags: TagEditor | null}>} */
const kept = new WeakMap();

/** @param {HTMLTableRowElement} row */
function begin(row) {
  const place = /** @type {HTMLElement | null} */ (row.querySelector(".tags"));
  const save = (/** @type {string[]} */ tags) => rest("PATCH", `experiments/${row.dataset.id}/`, { tags });
  const opener = /** @type {HTMLElement | null} */ (row.querySelector(".menu summary"));
  kept.set(row, { at: performance.now(), tags: place && new TagEditor(place, save, opener) });
  drawRow(row);
}

/** @param {Element} row */
function drawRow(row) {
  const place = /** @type {HTMLElement | null} */ (row.querySelector(".sparkline"));
  if (place) drawSparkline(place, JSON.parse(place.dataset.points ?? "[]"), Number(place.dataset.total));
}

/**
 * Time that is over goes on while an experiment is RUNNING, also where nothing is heard of it.
 * @param {HTMLTableRowElement} row
 */
function showTime(row) {
  const running = row.dataset.status === "RUNNING";
  const since = running ? (performance.now() - (kept.get(row)?.at ?? performance.now())) / 1000 : 0;
  const elapsed = Number(row.dataset.elapsed) + since;
  const limit = row.dataset.limit ? Number(row.dataset.limit) : null;
  const left = row.dataset.eta ? `, ${duration(Number(row.dataset.eta))} left` : "";
  showText(cell(row, "time"), duration(elapsed) + (limit === null ? "" : ` of ${duration(limit)}`) + left);
}

/**
 * @param {HTMLTableRowElement} row
 * @param {any} experiment
 */
function fill(row, experiment) {
  const { progress } = experiment;
  row.dataset.revision = String(experiment.revision);
  row.dataset.elapsed = String(progress.elapsed);
  row.dataset.eta = String(progress.eta ?? "");
  row.dataset.limit = String(experiment.max_duration ?? "");
  row.dataset.trials = String(progress.total);
  const mine = kept.get(row);
  if (mine) {
    mine.at = performance.now();
    mine.tags?.show(experiment.tags);
  }
  showText(cell(row, "name"), experiment.name);
  row.dataset.status = experiment.status;
  showStatus(cell(row, "status"), experiment.status);
  cell(row, "status")?.setAttribute("data-outcome", experiment.outcome ?? "");
  showText(cell(row, "outcome"), outcome(experiment));
  cell(row, "outcome")?.setAttribute("title", outcome(experiment));
  showText(cell(row, "message"), experiment.message);
  cell(row, "message")?.setAttribute("title", experiment.message);
  showText(cell(row, "trials"), `${progress.ended} / ${experiment.max_trial_number ?? "∞"}`);
  drawSegments(cell(row, "segments"), progress.trials, experiment.max_trial_number);
  showTime(row);
  const link = /** @type {HTMLAnchorElement} */ (cell(row, "best"));
  showText(link, progress.front === null ? best(progress) : `front of ${progress.front}`);
  if (progress.best_trial_id) {
    link.href = `/trials/${progress.best_trial_id}/`;
    link.title = String(progress.best_value);
  }
  cell(row, "changed")?.replaceChildren(ago(experiment.changed_at ?? experiment.created_at));
  const place = /** @type {HTMLElement} */ (row.querySelector(".sparkline"));
  place.hidden = progress.front !== null;
  const points = JSON.parse(place.dataset.points ?? "[]");
  if (progress.best_value !== null && progress.best_value !== points.at(-1)?.[1]) {
    points.push([Math.max(progress.ended - 1, points.at(-1)?.[0] ?? 0), progress.best_value]);
    place.dataset.points = JSON.stringify(points.slice(-80));
  }
  place.dataset.total = String(progress.total);
  drawRow(row);
  const finished = isFinishedExperiment(experiment.status);
  /** @type {HTMLElement} */ (cell(row, "archived")).hidden = !experiment.archived;
  const archive = /** @type {HTMLButtonElement | null} */ (row.querySelector('[data-action="archive"]'));
  const remove = /** @type {HTMLButtonElement | null} */ (row.querySelector('[data-action="delete"]'));
  if (archive) {
    archive.hidden = !finished && !experiment.archived;
    showText(archive, experiment.archived ? "Bring back" : "Archive");
  }
  if (remove) remove.hidden = !finished;
}

// --- the whole list --------------------------------------------------------------------------

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

/** Whether somebody is writing in the list, whose field would be taken away. */
function isWriting() {
  return rows().some((row) => kept.get(row)?.tags?.isOpen);
}

/** The list as the server has it now: for rows that came or went, and for the counts. */
async function refresh() {
  if (refreshing) {
    refreshAgain = true;
    return;
  }
  refreshing = true;
  try {
    if (isWriting() || !await takeAnew()) refreshAgain = true;
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

/** @returns {Promise<boolean>} false where nothing was replaced: somebody began to write before the answer came */
async function takeAnew() {
  const had = document.getElementById("counts") !== null;
  const active = document.activeElement;
  const id = /** @type {HTMLElement | null | undefined} */ (active?.closest("#experiments tr[data-id]"))?.dataset.id;
  const selector = active instanceof HTMLElement && active.dataset.action ? `[data-action="${active.dataset.action}"]`
    : active instanceof HTMLElement && active.dataset.cell ? `[data-cell="${active.dataset.cell}"]` : ".menu summary";
  /** The row whose menu is open. @type {string | undefined} */
  let open;
  let writing = false;
  const fresh = await refreshParts(["experiments", "counts", "now", "known-tags"], () => {
    open = /** @type {HTMLElement | null | undefined} */ (document.querySelector("#experiments details.menu[open]")?.closest("tr"))?.dataset.id;
    writing = isWriting();
    return !writing;
  });
  if (writing) return false;
  // the first experiment brings the filters, and with the last one they go
  if (had !== (fresh.getElementById("counts") !== null) && !leaving) location.reload();
  rows().forEach(begin);
  if (open) document.querySelector(`tr[data-id="${open}"] details.menu`)?.setAttribute("open", "");
  if (id) /** @type {HTMLElement | null} */ (document.querySelector(`tr[data-id="${id}"] ${selector}`))?.focus();
  return true;
}

/** Experiments that are not on this page, with what filters asked of them when we looked. @type {Map<string, string>} */
const elsewhere = new Map();

/** @param {any} experiment */
function forFilters({ status, archived, name, tags }) {
  return JSON.stringify([status, archived, name, tags]);
}

/** What a row says of that. @param {HTMLTableRowElement} row */
function shownIn(row) {
  const archived = !(/** @type {HTMLElement} */ (cell(row, "archived"))).hidden;
  return { status: row.dataset.status, archived, name: cell(row, "name")?.textContent, tags: kept.get(row)?.tags?.tags };
}

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
      // it may be new, or on another page, or not fit the filter: one look per change of what filters ask for tells
      structure ||= elsewhere.get(experiment.id) !== forFilters(experiment);
      elsewhere.set(experiment.id, forFilters(experiment));
    } else {
      elsewhere.delete(experiment.id); // it may leave, and come back as it was when it was elsewhere
      structure ||= forFilters(shownIn(row)) !== forFilters(experiment);
      fill(row, experiment);
    }
  }
  if (structure) refresh();
}

// --- what one does with a row ----------------------------------------------------------------

/**
 * @param {HTMLTableRowElement} row
 * @param {string} action
 */
async function act(row, action) {
  const { id, trials, platform } = row.dataset;
  const name = cell(row, "name")?.textContent ?? "";
  if (action === "tag") {
    kept.get(row)?.tags?.open();
    return;
  }
  if (action === "delete") {
    const sure = await confirmed({
      title: `Delete ${name}?`, action: "Delete experiment",
      text: `${trials === "1" ? "Its trial is" : `Its ${trials} trials are`} removed for good, with results, output and kept files, and `
        + `with what they left on ${platform}. Archiving it puts it out of sight and keeps all that.`,
    });
    if (sure) await rest("DELETE", `experiments/${id}/`);
  } else {
    await archive(id ?? "", name, row.querySelector('[data-action="archive"]')?.textContent === "Archive");
  }
  refresh();
}

const archivedNote = /** @type {HTMLElement} */ (document.getElementById("archived-note"));
/** Takes back what the note says. */
let undo = async () => {};

/**
 * Put an experiment out of sight or bring it back, and say so: its row may leave the list.
 * @param {string} id
 * @param {string} name
 * @param {boolean} archived
 */
async function archive(id, name, archived) {
  await rest("PATCH", `experiments/${id}/`, { archived });
  showText(archivedNote.querySelector("span"), archived ? `${name} is archived.` : `${name} is no longer archived.`);
  undo = () => archive(id, name, !archived);
  archivedNote.hidden = false;
}

archivedNote.querySelector("button")?.addEventListener("click", async (event) => {
  showError(null);
  try {
    await undo();
    refresh();
  } catch (error) {
    showError(error, /** @type {Element} */ (event.currentTarget));
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("#experiments button[data-action]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  button.disabled = true;
  showError(null);
  try {
    await act(/** @type {HTMLTableRowElement} */ (button.closest("tr")), button.dataset.action ?? "");
  } catch (error) {
    showError(error, button);
  }
  button.disabled = false;
});

rows().forEach(begin);
setInterval(() => document.visibilityState === "visible" && rows().forEach(showTime), 1_000);
setInterval(() => document.visibilityState === "visible" && showAgo(document), 20_000);
live.watchList(() => Object.fromEntries(rows().map((row) => [row.dataset.id, Number(row.dataset.revision)])), heard);

// --- the strip above the list ----------------------------------------------------------------

/** Shortest pause between two looks at the strip, in milliseconds. */
const STRIP_PAUSE = 10_000;
/** What runs on the clusters. */
const strip = new ThrottledReload(() => refreshParts(["now"]), STRIP_PAUSE);

keepWhileSame(["now"]);
live.watch("clusters", 0, () => strip.ask());
