/**
 * Says why something could not be done: beside the control that was used, where it is known, else in the place below
 * the page's title (#action-error).
 */

import { CONNECTED } from "../lib/live.js";
import { RestError } from "../lib/rest.js";

/** What a control stands in, where the sentence finds room. */
const PLACES = "td, .controls, .acts, .selection, form";

/** Whether what is said now is only that nobody answered. */
let isOfConnection = false;

/**
 * Say it, in place of what was said before.
 * @param {unknown} error  null: nothing any more
 * @param {Element | null} [control]  what was used, where there is one
 */
export function showError(error, control = null) {
  document.querySelectorAll(".error.beside").forEach((old) => old.remove());
  const below = document.getElementById("action-error");
  if (below) below.hidden = true;
  isOfConnection = error instanceof RestError && error.isOfConnection;
  if (!error) return;
  const beside = control?.isConnected ? control.closest(PLACES) : null;
  const place = beside ? beside.appendChild(document.createElement("p")) : below;
  if (!place) return;
  if (beside) {
    place.className = "error small beside";
    place.setAttribute("role", "alert");
  }
  place.textContent = error instanceof RestError ? error.sentences : String(error);
  /** @type {HTMLElement} */ (place).hidden = false;
  place.scrollIntoView({ block: "nearest" });
}

document.addEventListener(CONNECTED, () => isOfConnection && showError(null));
