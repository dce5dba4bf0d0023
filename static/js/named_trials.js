/**
 * Messages name jobs ("GPU 0 is held by ovy2pm6wxrk4"): here each becomes "trial 12 of experiment NAME" with a link,
 * or, where the reader may not see that trial, "a trial of others".
 *
 * What the server wrote is taken from elements with `data-says`; what scripts write goes through `showMessage`.
 */

import { rest } from "./rest.js";

const LIST = /(?<=\bheld by )[a-z][a-z0-9]{11}(?:[rs]\d+)?(?:, [a-z][a-z0-9]{11}(?:[rs]\d+)?)*/g;
/** What a question carries at most, as on the server. */
const MOST_JOBS = 200;

/** @typedef {{job: string, id: string, sequence_id: number, experiment_name: string}} Named */
/** By job; null where the reader may not see it. @type {Map<string, Promise<Named | null>>} */
const known = new Map();
/** Asked for together. @type {{job: string, tell: (found: Named | null) => void, fail: (error: unknown) => void}[]} */
let wanted = [];

async function ask() {
  const asked = wanted;
  wanted = [];
  for (let first = 0; first < asked.length; first += MOST_JOBS) {
    const some = asked.slice(first, first + MOST_JOBS);
    try {
      /** @type {Named[]} */
      const found = await rest("GET", `trials/named/?jobs=${some.map(({ job }) => job).join(",")}`);
      const named = new Map(found.map((each) => [each.job, each]));
      for (const { job, tell } of some) tell(named.get(job) ?? null);
    } catch (error) {
      for (const { job, fail } of some) {
        known.delete(job); // the next message asks again
        fail(error);
      }
    }
  }
}

/** @param {string} job */
function whose(job) {
  let found = known.get(job);
  if (!found) {
    found = new Promise((tell, fail) => {
      if (wanted.length === 0) queueMicrotask(ask);
      wanted.push({ job, tell, fail });
    });
    known.set(job, found);
  }
  return found;
}

/**
 * Show a message in an element; the names in it follow when they are known.
 * @param {Element | null} place
 * @param {string} text
 */
export async function showMessage(place, text) {
  if (!(place instanceof HTMLElement) || place.dataset.said === text) return;
  if (place.dataset.said !== undefined || place.textContent !== text) place.textContent = text;
  place.dataset.said = text;
  const jobs = [...text.matchAll(LIST)].flatMap(([list]) => list.split(", "));
  if (jobs.length === 0) return;
  try {
    const found = new Map(await Promise.all(jobs.map(async (job) => /** @type {[string, Named | null]} */ ([job, await whose(job)]))));
    if (place.dataset.said !== text) return; // it says something else by now
    place.replaceChildren(...pieces(text, found));
    if (place.title) place.title = place.textContent ?? "";
  } catch {
    // no connection, which the light says: the name of the job stays
  }
}

/**
 * @param {string} text
 * @param {Map<string, Named | null>} found
 */
function pieces(text, found) {
  /** @type {(string | Node)[]} */
  const made = [];
  let end = 0;
  for (const list of text.matchAll(LIST)) {
    made.push(text.slice(end, list.index));
    list[0].split(", ").forEach((job, place) => made.push(place ? ", " : "", name(found.get(job) ?? null)));
    end = list.index + list[0].length;
  }
  made.push(text.slice(end));
  return made;
}

/** @param {Named | null} trial */
function name(trial) {
  if (!trial) return "a trial of others";
  const link = document.createElement("a");
  link.href = `/trials/${trial.id}/`;
  link.textContent = `trial ${trial.sequence_id} of experiment ${trial.experiment_name}`;
  return link;
}

/**
 * Name the trials in the messages that the server wrote.
 * @param {ParentNode} root
 */
export function nameTrials(root) {
  for (const place of root.querySelectorAll("[data-says]")) showMessage(place, place.textContent ?? "");
}
