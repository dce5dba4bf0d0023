/** Keeps the table of trials live: rows change where they stand; new ones come on top where the newest are first. */

import { separateResults } from "../../ui/ranked_results.js";
import { blankRow, fillRow, obeyButtons } from "../trial_rows.js";
import { ReplicateRows } from "./replicate_rows.js";

export class TrialsTable {
  /**
   * @param {any} page  what the table was made with: order, is_filtered, first_page, page_size
   * @param {() => Promise<unknown>} refresh  brings the table as the server has it now
   * @param {() => void} grew  called when rows came or went
   */
  constructor(page, refresh, grew) {
    this.page = page;
    this.grew = grew;
    /** New trials that are not in the table. @type {Set<string>} */
    this.elsewhere = new Set();
    this.replicates = new ReplicateRows(page.experiment.id, grew);
    this.more = /** @type {HTMLButtonElement} */ (document.getElementById("more-trials"));
    this.more.addEventListener("click", () => refresh());
    this.newest = this.newestOfRows();
    obeyButtons(/** @type {Element} */ (document.getElementById("trials-table")?.parentElement), (trial) => this.heard([trial]));
  }

  newestOfRows() {
    return Math.max(-1, ...this.rows().map((row) => Number(row.querySelector('[data-cell="number"]')?.textContent)));
  }

  /** @returns {HTMLTableRowElement[]} */
  rows() {
    return [...document.querySelectorAll("#trials-table tbody tr[data-id]")].map((row) => /** @type {HTMLTableRowElement} */ (row));
  }

  /**
   * Trials of a frame.
   * @param {any[]} trials
   */
  heard(trials) {
    const shown = new Map(this.rows().map((row) => [row.dataset.id, row]));
    const grows = this.page.first_page && !this.page.is_filtered && this.page.order === "-sequence_id";
    const body = /** @type {HTMLElement} */ (document.querySelector("#trials-table tbody"));
    let came = 0;
    for (const trial of [...trials].sort((one, other) => one.sequence_id - other.sequence_id)) {
      const row = shown.get(trial.id);
      if (trial.sequence_id > this.newest) this.page.fitting += 1;
      if (row) this.replicates.offer(fillRow(row, trial), trial);
      else if (this.page.is_grouped && trial.proposal && trial.proposal.first !== trial.sequence_id) this.replicates.heard(trial);
      else if (trial.sequence_id > this.newest) {
        came += 1;
        if (grows) body.prepend(this.replicates.offer(fillRow(blankRow(), trial), trial));
        else this.elsewhere.add(trial.id);
      }
      this.newest = Math.max(this.newest, trial.sequence_id);
    }
    if (grows && came) {
      const rows = this.rows().filter((row) => !row.dataset.replicateOf);
      rows.slice(this.page.page_size).forEach((row) => {
        this.replicates.close(row);
        row.remove();
      });
      document.getElementById("no-trials")?.setAttribute("hidden", "");
      this.page.fitting_rows += came;
      const count = document.getElementById("fitting-count");
      if (count) count.textContent = `${this.page.fitting_rows} ${this.page.is_grouped ? "proposal" : "trial"}${this.page.fitting_rows === 1 ? "" : "s"}`;
      this.grew();
    }
    separateResults();
    this.offer();
  }

  offer() {
    this.more.hidden = this.elsewhere.size === 0;
    this.more.textContent = `${this.elsewhere.size} new – show the table anew`;
  }

  /** The server made the table anew. */
  madeAnew() {
    this.elsewhere.clear();
    this.newest = Math.max(this.newest, this.newestOfRows());
    this.offer();
  }
}
