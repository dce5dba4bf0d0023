/**
 * A reason may name jobs ("GPU 0 is held by ovy2pm6wxrk4"): in its message each becomes "trial 12 of experiment NAME"
 * with a link, or, where the reader may not see that trial, "a trial of others".
 *
 * Which jobs a message names stands beside it: in `data-says` of what the server wrote, in the `reason` of what scripts
 * show with `showMessage`.
 */

import { rest } from "../lib/rest.js";

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
 * The jobs in a reason: whatever stands in lists that are called "jobs", however deep.
 * @param {any} reason
 * @returns {string[]}
 */
export function jobsOf(reason) {
  if (reason === null || typeof reason !== "object") return [];
  return Object.entries(reason).flatMap(([key, value]) => (key === "jobs" && Array.isArray(value) ? value : jobsOf(value)));
}

/**
 * Show a message in an element; the trials in the place of its jobs follow when they are known.
 * @param {Element | null} place
 * @param {string} text
 * @param {string[]} jobs
 */
export async function showMessage(place, text, jobs = []) {
  if (!(place instanceof HTMLElement) || place.dataset.said === text) return;
  if (place.dataset.said !== undefined || place.textContent !== text) place.textContent = text;
  place.dataset.said = text;
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
  const jobs = new RegExp(`\\b(${[...found.keys()].map((job) => job.replace(/\W/g, "\\$&")).join("|")})\\b`);
  return text.split(jobs).map((piece) => (found.has(piece) ? name(found.get(piece) ?? null) : piece));
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
  for (const place of root.querySelectorAll("[data-says]")) {
    const jobs = /** @type {HTMLElement} */ (place).dataset.says ?? "";
    showMessage(place, place.textContent ?? "", jobs ? jobs.split(",") : []);
  }
}
