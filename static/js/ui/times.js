/** Times on pages: in the visitor's time zone, the full time on hover. */

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
 * Show a time element's time: the clock for today, the day for earlier.
 * @param {HTMLTimeElement} element
 */
export function localized(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) return element;
  const today = at.toDateString() === new Date().toDateString();
  const clock = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: today ? "2-digit" : undefined });
  element.textContent = today ? clock : `${at.toLocaleDateString([], { month: "short", day: "numeric" })} ${clock}`;
  element.title = at.toLocaleString([], { dateStyle: "full", timeStyle: "long" });
  return element;
}

/**
 * Show all times below an element.
 * @param {ParentNode} root
 */
export function localizeTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) localized(/** @type {HTMLTimeElement} */ (element));
}
