/** Times on pages: in the visitor's time zone, the full time on hover. */

import { clock, dayAndClock, fullTime, relative } from "../lib/clock.js";

/**
 * A time element, local, with the full time on hover.
 * @param {string | Date | null} at
 */
export function moment(at) {
  if (!at) return document.createTextNode("–");
  const element = document.createElement("time");
  element.dateTime = at instanceof Date ? at.toISOString() : at;
  return localized(element);
}

/**
 * As `moment`, for how long ago it was.
 * @param {string | null} at
 */
export function ago(at) {
  const element = moment(at);
  if (element instanceof HTMLTimeElement) {
    element.dataset.relative = "";
    localized(element);
  }
  return element;
}

/**
 * Say anew how long ago times were.
 * @param {ParentNode} root
 */
export function showAgo(root) {
  for (const element of root.querySelectorAll("time[data-relative]")) localized(/** @type {HTMLTimeElement} */ (element));
}

/**
 * Show a time element's time: the clock for today, the day for earlier.
 * @param {HTMLTimeElement} element
 */
export function localized(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) return element;
  const today = at.toDateString() === new Date().toDateString();
  const words = element.dataset.relative === undefined ? today ? clock(at, true) : dayAndClock(at) : relative(at, Date.now());
  if (element.textContent !== words) element.textContent = words;
  element.title = fullTime(at);
  return element;
}

/**
 * Show all times below an element.
 * @param {ParentNode} root
 */
export function localizeTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) localized(/** @type {HTMLTimeElement} */ (element));
}
