/**
 * The head of an experiment's pages: keeps it live and steers the experiment. A tab's script says what it wants to hear:
 *
 *     import { page, startHead } from "./head.js";
 *     startHead({ heard: (trials) => table.heard(trials), missed: () => table.refresh() });
 */

import { showError } from "../ui/action_error.js";
import { confirmed } from "../ui/confirm.js";
import { live } from "../lib/live.js";
import { mayPass, rest, RestError } from "../lib/rest.js";
import { ThrottledReload } from "../lib/throttled_reload.js";
import { refreshParts } from "../ui/refreshed_parts.js";
import "../ui/menus.js";
import { drawSegments } from "../ui/segments.js";
import { isFinishedExperiment, showMeaning, showOutcome, showText } from "../ui/status.js";
import { TagEditor } from "../ui/tag_editor.js";
import { moment } from "../ui/times.js";
import { best, duration } from "../lib/formats.js";
import { limitsReached, startMoreDialog } from "./dialogs/more_dialog.js";
import { startShareDialog } from "./dialogs/share_dialog.js";
import { startSpaceDialog } from "./dialogs/space_dialog.js";
import { startTunerDialog } from "./dialogs/tuner_dialog.js";

/** Shortest pause between two looks at everything, when more changes than frames carry; in milliseconds. */
const REFRESH_PAUSE = 3_000;
/** Shortest pause between two looks at the events, in milliseconds. */
const EVENTS_PAUSE = 500;

/** What the page was made with. */
export const page = JSON.parse(document.getElementById("page-data")?.textContent ?? "{}");
const id = page.experiment.id;
let experiment = page.experiment;
/** Grows with each event of the experiment itself. */
let lastEvent = page.last_event;

/**
 * @typedef {object} Listener
 * @property {(trials: any[]) => void} [heard]  trials of a frame
 * @property {() => Promise<unknown>} [missed]  more changed than a frame carries: take everything anew
 * @property {() => void} [told]  somebody or the worker changed the experiment itself
 */
/** @type {Listener} */
let tab = {};

/** @param {string} name */
function cells(name) {
  return document.querySelectorAll(`[data-cell="${name}"]:not(table *)`);
}

/** @param {any} now */
function show(now) {
  experiment = now;
  const { progress } = now;
  const write = (/** @type {string} */ name, /** @type {string} */ text) => cells(name).forEach((cell) => showText(cell, text));
  showName(now.name);
  cells("status").forEach((cell) => showOutcome(cell, now));
  cells("segments").forEach((bar) => drawSegments(bar, progress.trials, now.max_trial_number));
  write("message", now.message);
  showMeaning(now.status === "DONE" ? null : now.reason); // that it ended as it should needs no explanation
  write("best", best(progress));
  cells("best").forEach((cell) => cell.setAttribute("title", String(progress.best_value ?? "")));
  if (progress.best_trial_id) {
    cells("best").forEach((link) => link.setAttribute("href", `/trials/${progress.best_trial_id}/`));
  }
  write("front_size", String(progress.front));
  write("code", codeWords(now.code_git));
  write("ended", String(progress.ended));
  write("elapsed", duration(progress.elapsed));
  write("eta", duration(progress.eta));
  if (now.started_at) cells("started").forEach((cell) => cell.querySelector("time") ?? cell.replaceChildren(moment(now.started_at)));
  write("running", String(progress.trials.RUNNING));
  write("max_trial_number", String(now.max_trial_number ?? "∞"));
  write("max_duration", now.max_duration === null ? "no limit" : duration(now.max_duration));
  write("trial_concurrency", String(now.trial_concurrency));
  write("priority", String(now.priority));
  for (const item of document.querySelectorAll("#counts li")) {
    const count = progress.trials[/** @type {HTMLElement} */ (item).dataset.status ?? ""];
    showText(item.querySelector("[data-count]"), String(count));
    /** @type {HTMLElement} */ (item).hidden = !count;
  }
  showControls();
  if (!tags?.isOpen) tags?.show(now.tags);
}

/** In the line and in the title of the window, also when somebody has changed it elsewhere. @param {string} name */
function showName(name) {
  for (const cell of cells("name")) {
    if (cell.textContent === name) continue;
    document.title = document.title.replace(cell.textContent ?? "", () => name); // a text would be read for "$&"
    cell.textContent = name;
    cell.setAttribute("title", `${name} (${id})`);
  }
}

/** Where code from Git came from. @param {{url: string, ref: string, commit: string | null} | null} git */
function codeWords(git) {
  if (!git) return "";
  return `code from ${git.url}${git.commit ? ` at ${git.commit.slice(0, 10)}` : `${git.ref ? ` (${git.ref})` : ""}, not fetched yet`}`;
}

function showControls() {
  const finished = isFinishedExperiment(experiment.status);
  const stopping = experiment.status === "STOPPING" || experiment.target === "STOP";
  const paused = experiment.status === "PAUSED";
  const reached = limitsReached(experiment);
  const atLimit = finished && (reached.trials || reached.time);
  const possible = {
    pause: !finished && !stopping && !paused, freeze: !finished && !stopping, resume: paused || (finished && !atLimit), more: atLimit, stop: !finished && !stopping,
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

/**
 * @param {string} action
 * @param {HTMLButtonElement} button
 */
async function act(action, button) {
  if (action === "more") {
    askForMore();
    return;
  }
  const left = experiment.progress.total - experiment.progress.ended;
  if (action === "stop" && !await confirmed({
    title: "Stop the experiment?",
    text: `${left === 1 ? "1 unfinished trial is" : `${left} unfinished trials are`} ended; what they have not reported is lost. `
      + "Results so far stay, and the experiment can be resumed with new trials.",
    action: "Stop experiment",
  })) return;
  if (action === "freeze" && !await confirmed({
    title: "Freeze the experiment?",
    text: "It is paused, and its running trials are asked to save a checkpoint and end. When it is resumed, they continue from their last "
      + "checkpoint; a trial without one begins from the beginning.",
    action: "Freeze experiment",
  })) return;
  if (action === "delete" && !await confirmed({
    title: "Delete the experiment?",
    text: `Its ${experiment.progress.total} trials with their results and output are removed for good, and what they left on the platform.`,
    action: "Delete experiment",
  })) return;
  const failed = experiment.progress.trials.FAILED;
  if (action === "rerun-failed" && !await confirmed({
    title: "Run failed trials again?",
    text: `Of ${failed === 1 ? "the failed trial" : `the ${failed} failed trials`} each gets a new trial with the same parameters, unless it has `
      + "one already. The number of trials that the experiment may have grows by as many.",
    action: "Rerun failed",
    loses: false,
  })) return;
  showError(null);
  try {
    if (action === "delete") {
      await rest("DELETE", `experiments/${id}/`);
      location.assign("/");
    } else if (action === "archive") show(await rest("PATCH", `experiments/${id}/`, { archived: !experiment.archived }));
    else show(await rest("POST", `experiments/${id}/actions/${action}/`));
  } catch (error) {
    showError(error, button);
  }
}

document.getElementById("controls")?.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-action]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  button.disabled = true;
  await act(button.dataset.action ?? "", button);
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

const tagPlace = document.querySelector("#facts-of-experiment .tags");
const tags = tagPlace instanceof HTMLElement
  ? new TagEditor(tagPlace, (wanted) => rest("PATCH", `experiments/${id}/`, { tags: wanted })) : null;
const askForMore = startMoreDialog(id, () => experiment, show);
startShareDialog(id);
startSpaceDialog(async (text) => show(await rest("PATCH", `experiments/${id}/`, { search_space_text: text })), () => experiment.progress.trials);

startTunerDialog(id, show);

/** Those of the experiment itself, where they are shown. */
const events = new ThrottledReload(() => refreshParts(["events"]), EVENTS_PAUSE);
let refreshing = false;
let refreshAgain = false;

/** More changed than a frame carries, which is told once: it is asked for until it is here. */
async function refreshAll() {
  if (refreshing) {
    refreshAgain = true;
    return;
  }
  refreshing = true;
  await tab.missed?.().catch((error) => {
    refreshAgain ||= mayPass(error);
  });
  setTimeout(() => {
    refreshing = false;
    if (refreshAgain) {
      refreshAgain = false;
      refreshAll();
    }
  }, REFRESH_PAUSE);
}

/**
 * Keep the head live from now on, and tell the tab what changes.
 * @param {Listener} [listener]
 */
export function startHead(listener = {}) {
  tab = listener;
  showControls();
  live.watch(`experiment/${id}`, experiment.revision, (frame) => {
    if (frame.gone) {
      showError("This experiment was deleted, or you may no longer see it.");
      return;
    }
    show(frame.experiment);
    if (frame.last_event !== lastEvent) {
      lastEvent = frame.last_event;
      if (document.getElementById("events")) events.ask();
      tab.told?.();
    }
    if (frame.complete) tab.heard?.(frame.trials);
    else refreshAll();
  });
}
