/** The one clock of all pages: 24 hours, in the visitor's time zone. Days are written as the browser's language has them. */

/**
 * "14:03", or "14:03:22".
 * @param {Date | number} at
 * @param {boolean} [seconds]
 */
export function clock(at, seconds = false) {
  const date = new Date(at);
  const parts = [date.getHours(), date.getMinutes(), ...(seconds ? [date.getSeconds()] : [])];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}

/**
 * "Nov 23 14:03".
 * @param {Date | number} at
 */
export function dayAndClock(at) {
  return `${new Date(at).toLocaleDateString([], { month: "short", day: "numeric" })} ${clock(at)}`;
}

/**
 * All of it, for where somebody points at a time.
 * @param {Date} at
 */
export function fullTime(at) {
  return at.toLocaleString([], { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });
}

/** Seconds of a unit, and how it is written. @type {[number, string][]} */
const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"]];
/** After so many days the day itself is said. */
const LONG_AGO = 30;

/**
 * "5 min ago", "3 h ago", "2 d ago"; "now" within a minute, and the day where it is long ago.
 * @param {Date} at
 * @param {number} now  milliseconds
 */
export function relative(at, now) {
  const seconds = (now - at.getTime()) / 1000;
  if (seconds >= LONG_AGO * 86_400) return at.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
  const unit = UNITS.find(([size]) => seconds >= size);
  return unit ? `${Math.floor(seconds / unit[0])} ${unit[1]} ago` : "now";
}
