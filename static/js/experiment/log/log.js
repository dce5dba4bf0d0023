/** The log of an experiment: new lines at its end, earlier ones when they are asked for. */

import { showError } from "../../ui/action_error.js";
import { live } from "../../lib/live.js";
import { mayPass, rest } from "../../lib/rest.js";
import { moment } from "../../ui/times.js";
import { page, startHead } from "../head.js";

/** Lines that stay on the page while it follows the end; older ones are fetched again when they are asked for. */
const MOST_LINES = 3_000;
/** As in Python's logging; a filter shows a level and those behind it. */
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
/** Pause after the last lines could not be fetched, in milliseconds. */
const CATCH_UP_PAUSE = 3_000;
/** Pixels from the end at which the view still counts as being there. */
const NEAR = 24;

const id = page.experiment.id;
const { wanted } = page.log;
const view = /** @type {HTMLElement} */ (document.getElementById("log"));
const list = /** @type {HTMLOListElement} */ (document.getElementById("log-lines"));
const follow = /** @type {HTMLInputElement} */ (document.getElementById("log-follow"));
const earlier = /** @type {HTMLButtonElement} */ (document.getElementById("log-earlier"));
const nothing = /** @type {HTMLElement} */ (document.getElementById("log-nothing"));
const template = /** @type {HTMLTemplateElement} */ (document.getElementById("log-line"));
/** Number of the last line that came, whether it fits or not. */
let last = page.log.last;

/** @param {any} line */
function row(line) {
  const item = /** @type {HTMLLIElement} */ (template.content.querySelector("li")?.cloneNode(true));
  item.className = line.level;
  item.dataset.number = line.number;
  item.querySelector(".at")?.replaceChildren(moment(line.at));
  const write = (/** @type {string} */ name, /** @type {string} */ text) => item.querySelector(`.${name}`)?.replaceChildren(text);
  write("level", line.level);
  write("source", line.source);
  const link = /** @type {HTMLAnchorElement} */ (item.querySelector("a"));
  link.href = `/trials/${line.trial}/`;
  link.hidden = !line.trial;
  item.querySelector(".message")?.replaceChildren(line.message, " ", link);
  return item;
}

/** @param {any} line */
function fits(line) {
  return LEVELS.indexOf(line.level) >= LEVELS.indexOf(wanted.level || "DEBUG")
    && (!wanted.source || wanted.source.split(",").includes(line.source))
    && line.message.toLowerCase().includes(wanted.q.toLowerCase());
}

/** @param {any[]} lines */
function append(lines) {
  const fresh = lines.filter((line) => line.number > last);
  if (!fresh.length) return;
  last = fresh[fresh.length - 1].number;
  const shown = fresh.filter(fits);
  if (!shown.length) return;
  list.append(...shown.map(row));
  nothing.hidden = true;
  if (follow.checked) {
    while (list.childElementCount > MOST_LINES) {
      list.firstElementChild?.remove();
      earlier.hidden = false;
    }
    toEnd();
  }
}

function toEnd() {
  view.scrollTop = view.scrollHeight;
}

/** @param {Record<string, string | number>} more */
function part(more) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...wanted, ...more })) if (value !== "") query.set(name, String(value));
  return rest("GET", `experiments/${id}/log/?${query}`);
}

/** Lines of frames wait here until the answer that may not know of them. @type {any[] | null} */
let early = null;
let catchUps = 0;

/** More lines came than a frame carries: the last ones, and the way to those before. */
async function catchUp() {
  const mine = ++catchUps;
  early = []; // what came before, the answer knows
  try {
    const found = await part({ limit: page.log.most });
    if (mine !== catchUps) return;
    list.replaceChildren(...found.lines.map(row));
    nothing.hidden = found.lines.length > 0;
    earlier.hidden = !found.has_earlier;
    last = found.last;
    if (follow.checked) toEnd();
  } finally {
    if (mine === catchUps) {
      const waited = early ?? [];
      early = null;
      append(waited);
    }
  }
}

/** As `catchUp`, until they are here: no frame brings them. */
async function catchUpUntilHere() {
  try {
    await catchUp();
    showError(null);
  } catch (error) {
    showError(error);
    if (mayPass(error)) setTimeout(catchUpUntilHere, CATCH_UP_PAUSE);
  }
}

earlier.addEventListener("click", async () => {
  earlier.disabled = true;
  try {
    const first = /** @type {HTMLElement | null} */ (list.firstElementChild);
    const found = await part({ limit: page.log.most, before: Number(first?.dataset.number ?? last + 1) });
    const below = view.scrollHeight - view.scrollTop;
    list.prepend(...found.lines.map(row));
    earlier.hidden = !found.has_earlier;
    setFollow(false);
    view.scrollTop = view.scrollHeight - below; // what was read stays where it was
    if (!found.has_earlier && found.first > 1) {
      const removed = /** @type {HTMLElement} */ (document.getElementById("log-removed"));
      removed.textContent = `${(found.first - 1).toLocaleString()} earlier lines were removed: the last 10,000 are kept.`;
      removed.hidden = false;
    }
  } catch (error) {
    showError(error);
  } finally {
    earlier.disabled = false;
  }
});

/** @param {boolean} on */
function setFollow(on) {
  follow.checked = on;
  const address = new URL(location.href);
  if (on) address.searchParams.delete("follow");
  else address.searchParams.set("follow", "0");
  history.replaceState(null, "", address);
}

follow.addEventListener("change", () => {
  setFollow(follow.checked);
  if (follow.checked) toEnd();
});
let top = 0;
view.addEventListener("scroll", () => {
  // scrolling up lets go, scrolling to the end takes hold again
  const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < NEAR;
  const up = view.scrollTop < top;
  top = view.scrollTop;
  if (follow.checked ? up && !atEnd : atEnd && !up && view.scrollHeight > view.clientHeight) setFollow(!follow.checked);
});

if (follow.checked) toEnd();
startHead();
live.watch(`log/${id}`, page.log.revision, (frame) => {
  if (frame.gone) return; // the head says so
  if (frame.complete && early) early.push(...frame.lines);
  else if (frame.complete) append(frame.lines);
  else catchUpUntilHere();
});
