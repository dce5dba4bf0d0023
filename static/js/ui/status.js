/** Shows a status: its word, and by its class colour and icon (nniweb.css). */

import { outcome, statusWord } from "../lib/formats.js";

/**
 * @param {Element | null} element
 * @param {string} status
 */
export function showStatus(element, status) {
  if (!element || element.classList.contains(status)) return;
  element.textContent = statusWord(status);
  element.className = `status ${status}`;
}

/**
 * The status of an experiment with what came of it, which is in the element behind it.
 * @param {Element | null} element
 * @param {any} experiment
 */
export function showOutcome(element, experiment) {
  showStatus(element, experiment.status);
  element?.setAttribute("data-outcome", experiment.outcome ?? "");
  showText(element?.nextElementSibling ?? null, outcome(experiment));
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

/** Whether a trial shall wait, frozen. @param {string} target */
export function isAtRest(target) {
  return ["FROZEN", "HELD", "PREEMPTED"].includes(target);
}

/** @param {string} status */
export function isFinishedExperiment(status) {
  return ["DONE", "STOPPED", "ERROR"].includes(status);
}

/** Codes of what somebody else said: there is nothing to explain. */
const OF_OTHERS = ["platform", "other"];

/** The link beside a "why" to what it means: the page of reasons has an entry for each code. @param {{code: string} | null} reason */
export function showMeaning(reason) {
  const link = document.getElementById("why-means");
  if (!(link instanceof HTMLAnchorElement)) return;
  const code = reason?.code ?? "";
  link.hidden = !code || OF_OTHERS.includes(code);
  if (!link.hidden) link.href = `/reasons/#${code}`;
}
