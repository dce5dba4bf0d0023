/** Shows a status: its word, and by its class colour and icon (nniweb.css). */

/**
 * @param {Element | null} element
 * @param {string} status
 */
export function showStatus(element, status) {
  if (!element || element.textContent === status) return;
  element.textContent = status;
  element.className = `status ${status}`;
}

/**
 * Text of a cell, written only where it differs: an unchanged page costs the browser nothing.
 * @param {Element | null} element
 * @param {string} text
 */
export function showText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

/** @param {string} status */
export function isEnd(status) {
  return ["SUCCEEDED", "FAILED", "USER_CANCELED", "SYS_CANCELED", "EARLY_STOPPED"].includes(status);
}

/** @param {string} status */
export function isFinishedExperiment(status) {
  return ["DONE", "STOPPED", "ERROR"].includes(status);
}
