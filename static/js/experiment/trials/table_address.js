/**
 * The address of the table of trials: filter, order, columns, page. A change of it brings a new table, not a new page:
 * the connection, what was chosen and what is being typed stay.
 */

import { refreshParts } from "../../ui/refreshed_parts.js";

/** What the server makes anew. */
const PARTS = ["counts", "filter-mistake", "fitting-count", "trials-table", "no-trials", "trial-pages", "trial-row", "group-choice"];

export class TableAddress {
  /** @param {(page: any) => void} arrived  gets what the new table was made with */
  constructor(arrived) {
    this.arrived = arrived;
    this.asked = 0;
    this.onTheirWay = 0;
    /** Trials of frames that came while a table is on its way, which may not know of them. @type {any[]} */
    this.early = [];
    window.addEventListener("popstate", () => this.refresh());
    document.addEventListener("click", (event) => {
      const link = event.target instanceof Element ? event.target.closest("#counts a, #trials-table th a, #trial-pages a, #show-all") : null;
      if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
      event.preventDefault();
      this.go(new URL(link.href), link);
    });
  }

  /**
   * With these changes of the query, from the first page on; "" takes a name out.
   * @param {Record<string, string>} changes
   */
  change(changes) {
    const url = new URL(location.href);
    for (const [name, value] of Object.entries({ page: "", ...changes })) {
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    return this.go(url);
  }

  /**
   * @param {URL} url
   * @param {Element} [from]  what had the focus and is made anew
   */
  async go(url, from) {
    const selected = new URL(location.href).searchParams.get("selected"); // links of the table do not know of it
    if (selected) url.searchParams.set("selected", selected);
    if (url.href !== location.href) history.pushState(null, "", url);
    const heading = from?.closest("th") ? [.../** @type {Element} */ (from.closest("tr")).children].indexOf(/** @type {Element} */ (from.closest("th"))) : -1;
    await this.refresh();
    const place = heading >= 0 ? document.querySelector(`#trials-table thead th:nth-child(${heading + 1}) a`) : from?.closest("#trial-pages") && document.getElementById("choose-page");
    if (place instanceof HTMLElement) place.focus();
  }

  /** @param {any[]} trials  of a frame */
  heard(trials) {
    if (this.onTheirWay) this.early.push(...trials);
  }

  /** The table as the server has it now, at this address. */
  async refresh() {
    const mine = ++this.asked;
    this.early = []; // what came before, the answer knows
    const table = document.getElementById("trials-table");
    table?.setAttribute("aria-busy", "true");
    this.onTheirWay += 1;
    try {
      const fresh = await refreshParts(PARTS, () => mine === this.asked);
      if (mine === this.asked) this.arrived(JSON.parse(fresh.getElementById("page-data")?.textContent ?? "{}"));
    } finally {
      this.onTheirWay -= 1;
      table?.removeAttribute("aria-busy");
    }
  }
}
