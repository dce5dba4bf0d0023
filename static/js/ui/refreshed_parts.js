/** Parts of a page that are taken anew from the server. */

import { localizeTimes } from "./times.js";
import { RestError } from "../lib/rest.js";
import { nameTrials } from "./named_trials.js";
import { pinColumns } from "./pinned_columns.js";

/** What the server last gave of the parts that no script changes. @type {Map<string, string>} */
const unchanged = new Map();

/**
 * Say at the start that no script changes these parts: then `refreshParts` leaves them alone, with what is focused or
 * selected in them, while the server gives the same.
 * @param {string[]} ids
 */
export function keepWhileSame(ids) {
  for (const id of ids) unchanged.set(id, document.getElementById(id)?.outerHTML ?? "");
}

/**
 * Take parts of this page anew from the server: for what is made there, and for what a frame does not carry.
 * @param {string[]} ids  of elements to replace
 * @param {() => boolean} [wanted]  asked when the answer has come: false where it has been overtaken; then nothing is replaced
 * @returns {Promise<Document>} the page as it would be opened now
 */
export async function refreshParts(ids, wanted = () => true) {
  const response = await fetch(location.href, { credentials: "same-origin", headers: { Accept: "text/html" } });
  if (!response.ok) throw new RestError(response.status, [{ field: "", message: "The page could not be reloaded." }]);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!wanted()) return fresh;
  for (const id of ids) {
    const now = document.getElementById(id);
    const then = fresh.getElementById(id);
    if (!now || !then) continue;
    const adopted = document.importNode(then, true);
    localizeTimes(adopted);
    if (unchanged.has(id)) {
      const html = adopted.outerHTML;
      if (unchanged.get(id) === html) continue;
      unchanged.set(id, html);
    }
    now.replaceWith(adopted);
    nameTrials(adopted);
  }
  pinColumns();
  return fresh;
}
