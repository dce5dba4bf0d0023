/** JSON and numbers that a person wrote, of which JavaScript would round some without a word. */

/** A whole number that no number of JavaScript is. */
export class WouldBeRounded extends SyntaxError {
  /** @param {string} digits */
  constructor(digits) {
    super(`The form cannot hold ${digits.length > 40 ? `${digits.slice(0, 40)}…` : digits}, because it has too many digits. The text of a config can.`);
  }
}

/** A value of JSON. Throws SyntaxError. @param {string} text @returns {any} */
export function readExact(text) {
  /** @param {string} _ @param {unknown} value @param {{source?: string}} [context]  which older browsers do not have */
  const check = (_, value, context) => (typeof value === "number" ? exactNumber(context?.source ?? String(value)) : value);
  return JSON.parse(text, /** @type {(key: string, value: unknown) => unknown} */ (check));
}

/** A number. Throws WouldBeRounded. @param {string} written */
export function exactNumber(written) {
  const number = Number(written);
  if (/^-?\d+$/.test(written) && (!Number.isFinite(number) || BigInt(number) !== BigInt(written))) throw new WouldBeRounded(written);
  return number;
}
