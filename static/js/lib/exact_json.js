/** JSON with numbers that JavaScript would round without a word, or take for others: 1.0 for 1. */

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

/**
 * A value of JSON that becomes the same text again. Throws SyntaxError, also where an older browser would round.
 * @param {string} text @returns {any}
 */
export function readRaw(text) {
  const raw = /** @type {{rawJSON?: (text: string) => unknown}} */ (JSON).rawJSON;
  /** @param {string} _ @param {unknown} value @param {{source?: string}} [context] */
  const keep = (_, value, context) => (typeof value === "number" && raw && context?.source ? raw(context.source) : value);
  return raw ? JSON.parse(text, /** @type {(key: string, value: unknown) => unknown} */ (keep)) : readExact(text);
}

/** A number as it is written. */
export class Digits {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/** A value of JSON, with its numbers as they are written. @param {string} text @returns {unknown} */
export function readDigits(text) {
  /** @param {string} _ @param {unknown} value @param {{source?: string}} [context]  which older browsers do not have */
  const keep = (_, value, context) => (typeof value === "number" ? new Digits(context?.source ?? String(value)) : value);
  return JSON.parse(text, /** @type {(key: string, value: unknown) => unknown} */ (keep));
}

/**
 * The JSON of each value: as the server wrote it, unless it is another one since.
 * @param {Record<string, unknown>} values @param {Record<string, string>} written
 */
export function exactTexts(values, written) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => {
    const text = written[name];
    const isSame = text !== undefined && JSON.stringify(JSON.parse(text)) === JSON.stringify(value);
    return [name, isSame ? text : JSON.stringify(value, null, value !== null && typeof value === "object" ? 1 : 0)];
  }));
}
