/** Keeps the table of trials live: rows change where they stand; new ones come on top where the newest are first. */

import { blankRow, fillRow, obeyButtons } from "../trial_rows.js";
import { ReplicateRows } from "./replicate_rows.js";

export class TrialsTable {
  /**
   * @param {any} page  what the table was made with: order, is_filtered, first_page, page_size, next_sequence_id
   * @param {() => Promise<unknown>} refresh  brings the table as the server has it now
   * @param {() => void} grew  called when rows came or went
   */
  constructor(page, refresh, grew) {
    this.page = page;
    this.grew = grew;
    /** Trials that came since the table was made. They are not heard of in their order. @type {Set<string>} */
    this.came = new Set();
    /** Those of them that are not in the table. @type {Set<string>} */
    this.elsewhere = new Set();
    this.replicates = new ReplicateRows(page.experiment.id, grew);
    this.more = /** @type {HTMLButtonElement} */ (document.getElementById("more-trials"));
    this.more.addEventListener("click", () => refresh());
    obeyButtons(/** @type {Element} */ (document.getElementById("trials-table")?.parentElement), (trial) => this.heard([trial]));
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
    let came = 0;
    for (const trial of [...trials].sort((one, other) => one.sequence_id - other.sequence_id)) {
      const row = shown.get(trial.id);
      const isNew = trial.sequence_id >= this.page.next_sequence_id && !this.came.has(trial.id);
      if (isNew) {
        this.came.add(trial.id);
        this.page.fitting += 1;
      }
      if (row) this.replicates.offer(fillRow(row, trial), trial);
      else if (this.page.is_grouped && trial.proposal && trial.proposal.first !== trial.sequence_id) this.replicates.heard(trial);
      else if (isNew) {
        came += 1;
        if (grows) this.insert(this.replicates.offer(fillRow(blankRow(), trial), trial), trial.sequence_id);
        else this.elsewhere.add(trial.id);
      }
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
    this.offer();
  }

  /**
   * Above the first row of an older trial.
   * @param {HTMLTableRowElement} row
   * @param {number} number  of its trial
   */
  insert(row, number) {
    const older = this.rows().find((one) => !one.dataset.replicateOf && Number(one.querySelector('[data-cell="number"]')?.textContent) < number);
    if (older) older.before(row);
    else document.querySelector("#trials-table tbody")?.append(row);
  }

  offer() {
    this.more.hidden = this.elsewhere.size === 0;
    this.more.textContent = `${this.elsewhere.size} new – show the table anew`;
  }

  /** The server made the table anew. */
  madeAnew() {
    this.came.clear();
    this.elsewhere.clear();
    this.offer();
  }
}
