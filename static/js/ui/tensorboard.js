/** Starts a TensorBoard of trials in a tab of its own, and stops those that are open. */

import { showError } from "./action_error.js";
import { rest } from "../lib/rest.js";
import { refreshParts } from "./refreshed_parts.js";

/**
 * @param {string} experiment
 * @param {string[]} trials  ids
 */
export async function startTensorBoard(experiment, trials) {
  const tab = window.open("", "_blank"); // now, while the browser knows that somebody pressed a button
  try {
    const board = await rest("POST", `experiments/${experiment}/tensorboards/`, { trials });
    if (tab) tab.location.href = board.url;
    else location.assign(board.url);
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/** @param {string} experiment */
export function stopOnClick(experiment) {
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-stop-tensorboard]") : null;
    if (!(button instanceof HTMLButtonElement)) return;
    button.disabled = true;
    try {
      await rest("DELETE", `experiments/${experiment}/tensorboards/${button.dataset.stopTensorboard}/`);
      await refreshParts(["tensorboards"]);
      showError(null);
    } catch (error) {
      button.disabled = false;
      showError(error);
    }
  });
}
