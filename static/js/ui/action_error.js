/** The place beside a page's title where it says why something could not be done. */

import { RestError } from "../lib/rest.js";

/**
 * Say it; nothing takes it away again.
 * @param {unknown} error
 */
export function showError(error) {
  const place = document.getElementById("action-error");
  if (!place) return;
  place.textContent = error instanceof RestError ? error.sentences : error ? String(error) : "";
  place.hidden = !error;
  if (error) place.scrollIntoView({ block: "nearest" });
}
