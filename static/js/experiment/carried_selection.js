/** The selected trials go with the row of tabs: in the address of each, as `selected`, and as `trials` of Compare. */

import { addressState } from "./address_state.js";
import { MOST_COMPARED } from "./compared_trials.js";

/** Ids that an address carries; a larger selection stays on its tab. */
export const MOST_CARRIED = 100;

/** The trials that this address has selected. */
export function selectedInAddress() {
  const given = addressState();
  return (given.get("selected") ?? (location.pathname.endsWith("/compare/") ? given.get("trials") : null) ?? "").split(",").filter(Boolean);
}

/**
 * Let the tabs' links carry these from now on; what the address has selected, they carry from the server.
 * @param {string[]} ids
 */
export function carrySelection(ids) {
  const carried = ids.length <= MOST_CARRIED ? ids.join(",") : "";
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(".tabs a"))) {
    const url = new URL(link.href);
    url.search = "";
    if (carried) url.searchParams.set("selected", carried);
    if (carried && url.pathname.endsWith("/compare/") && ids.length > 1 && ids.length <= MOST_COMPARED) url.searchParams.set("trials", carried);
    link.href = url.pathname + url.search.replaceAll("%2C", ",");
  }
}
