/** The bar that shows how the trials of an experiment ended: the same as nniweb/dashboard/home/segments.py. */

import { statusWord } from "../lib/formats.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
/** Statuses in the order of the bar; those of a group are one piece. */
const PIECES = [["SUCCEEDED"], ["EARLY_STOPPED"], ["USER_CANCELED", "SYS_CANCELED"], ["FAILED"], ["RUNNING", "UNKNOWN"]];
/** Of a piece that would be too thin to be seen, in hundredths of the bar. */
const LEAST = 1.5;

/**
 * Pieces with their places and widths in hundredths of the bar.
 * @param {Record<string, number>} counts  trials by status
 * @param {number | null} limit  of trials
 */
export function segments(counts, limit) {
  const numbers = PIECES.map((group) => group.reduce((sum, status) => sum + (counts[status] ?? 0), 0));
  const total = Math.max(limit ?? 0, sumOf(counts), 1);
  const widths = numbers.map((count) => (count ? Math.max((100 * count) / total, LEAST) : 0));
  const tooWide = Math.max(widths.reduce((sum, width) => sum + width, 0) / 100, 1);
  let start = 0;
  return numbers.flatMap((count, place) => {
    const piece = { status: PIECES[place][0], count, start: rounded(start), width: rounded(widths[place] / tooWide) };
    start += widths[place] / tooWide;
    return count ? [piece] : [];
  });
}

/**
 * @param {Record<string, number>} counts
 * @param {number | null} limit
 */
export function segmentWords(counts, limit) {
  const pieces = segments(counts, limit).map(({ status, count }) => `${count} ${statusWord(status).toLowerCase()}`);
  return `${pieces.join(", ") || "none ended"}, of ${Math.max(limit ?? 0, sumOf(counts))} trials`;
}

/**
 * @param {Element | null} bar  an svg
 * @param {Record<string, number>} counts
 * @param {number | null} limit
 */
export function drawSegments(bar, counts, limit) {
  const words = segmentWords(counts, limit);
  if (!bar || bar.getAttribute("aria-label") === words) return;
  bar.setAttribute("aria-label", words);
  bar.replaceChildren(...segments(counts, limit).map(({ status, start, width }) => {
    const piece = document.createElementNS(NAMESPACE, "rect");
    for (const [name, value] of Object.entries({ class: status, x: start, width, height: 8 })) piece.setAttribute(name, String(value));
    return piece;
  }));
}

/** @param {Record<string, number>} counts */
function sumOf(counts) {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** @param {number} value */
function rounded(value) {
  return Math.round(value * 100) / 100;
}
