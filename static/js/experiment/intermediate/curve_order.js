/** In which order curves are drawn. */

/**
 * @template {{final: number | null}} T
 * @param {T[]} curves
 * @param {boolean} greaterIsBetter
 * @returns {[T, number][]} each with its place in `curves`
 */
export function worstFirst(curves, greaterIsBetter) {
  const goodness = (/** @type {T} */ { final }) => (final === null ? -Infinity : greaterIsBetter ? final : -final);
  return curves.map((curve, place) => /** @type {[T, number]} */ ([curve, place])).sort(([one], [other]) => {
    const [a, b] = [goodness(one), goodness(other)];
    return a === b ? 0 : a < b ? -1 : 1;
  });
}
