/** Keeps the table of trials live: rows change where they stand; new ones come on top where the newest are first. */

import { refreshParts } from "../rest.js";
import { blankRow, fillRow, obeyButtons } from "./trial_rows.js";

export class TrialsTable {
  /** @param {any} page  what the page was made with: parameters, order, is_filtered, first_page, page_size */
  constructor(page) {
    this.page = page;
    /** New trials that are not in the table. @type {Set<string>} */
    this.elsewhere = new Set();
    this.newest = Math.max(-1, ...this.rows().map((row) => Number(row.querySelector('[data-cell="number"]')?.textContent)));
    this.more = /** @type {HTMLButtonElement} */ (document.getElementById("more-trials"));
    this.more.addEventListener("click", () => this.refresh());
    obeyButtons(/** @type {Element} */ (document.getElementById("trials-table")?.parentElement), (trial) => this.heard([trial]));
  }

  get body() {
    return /** @type {HTMLTableSectionElement} */ (document.querySelector("#trials-table tbody"));
  }

  /** @returns {HTMLTableRowElement[]} */
  rows() {
    return [...this.body.querySelectorAll("tr[data-id]")].map((row) => /** @type {HTMLTableRowElement} */ (row));
  }

  /**
   * Trials of a frame.
   * @param {any[]} trials
   */
  heard(trials) {
    const shown = new Map(this.rows().map((row) => [row.dataset.id, row]));
    const grows = this.page.first_page && !this.page.is_filtered && this.page.order === "-sequence_id";
    for (const trial of [...trials].sort((one, other) => one.sequence_id - other.sequence_id)) {
      const row = shown.get(trial.id);
      if (row) fillRow(row, trial);
      else if (trial.sequence_id > this.newest) {
        if (grows) this.body.prepend(fillRow(blankRow(), trial));
        else this.elsewhere.add(trial.id);
      }
      this.newest = Math.max(this.newest, trial.sequence_id);
    }
    if (grows) {
      const rows = this.rows();
      rows.slice(this.page.page_size).forEach((row) => row.remove());
      if (rows.length) document.getElementById("no-trials")?.setAttribute("hidden", "");
    }
    this.more.hidden = this.elsewhere.size === 0;
    this.more.textContent = `${this.elsewhere.size} new – show the table anew`;
  }

  /** The table as the server has it now. */
  async refresh() {
    this.elsewhere.clear();
    this.more.hidden = true;
    await refreshParts(["trials-table", "trial-pages"]);
  }
}
