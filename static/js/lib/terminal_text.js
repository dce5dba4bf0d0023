/** What a program wrote for a terminal, as plain text. */

const CODES = /\x1b\[[0-?]*[ -\/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -\/]*[0-~]/g;

/**
 * Without colours, cursor movements and titles.
 * @param {string} text
 */
export function withoutTerminalCodes(text) {
  return text.replace(CODES, "");
}
