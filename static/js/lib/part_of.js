/** Where a number lies between two others. */

/**
 * 0 at the low one, 1 at the high one, also where they are further apart than any number is great.
 * @param {number} value
 * @param {number} low
 * @param {number} high  greater than `low`
 */
export function partOf(value, low, high) {
  const size = high - low;
  return Number.isFinite(size) ? (value - low) / size : (value / 2 - low / 2) / (high / 2 - low / 2);
}
