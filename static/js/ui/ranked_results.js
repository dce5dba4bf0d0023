/**
 * Results that are ranked have as many digits as tell them apart. The element around them says how many: `data-ranked`.
 * Each shown result has its whole number in `data-number`.
 */

import { digits, digitsApart, withDigits } from "../lib/formats.js";
import { showText } from "./status.js";

/**
 * Write a result into its cell.
 * @param {Element | null} cell
 * @param {number | null} number
 */
export function showResult(cell, number) {
  if (!(cell instanceof HTMLElement)) return;
  cell.dataset.number = String(number ?? "");
  const ranked = /** @type {HTMLElement | null} */ (cell.closest("[data-ranked]"));
  showText(cell, ranked?.dataset.ranked ? withDigits(number, Number(ranked.dataset.ranked)) : digits(number));
}

/** Tell the results that are shown now apart, wherever some are ranked. */
export function separateResults() {
  for (const place of document.querySelectorAll("[data-ranked]")) {
    const cells = /** @type {NodeListOf<HTMLElement>} */ (place.querySelectorAll('[data-cell="result"]'));
    const numbers = [...cells].map((cell) => (cell.dataset.number ? Number(cell.dataset.number) : null));
    const apart = String(digitsApart(numbers));
    if (place.getAttribute("data-ranked") === apart) continue;
    place.setAttribute("data-ranked", apart);
    cells.forEach((cell, index) => showResult(cell, numbers[index]));
  }
}
