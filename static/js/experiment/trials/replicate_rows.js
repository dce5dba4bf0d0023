/** Rows of proposals that open: below the row of its first trial, one for each further run of it. */

import { showError } from "../../ui/action_error.js";
import { rest } from "../../lib/rest.js";
import { blankRow, fillRow } from "../trial_rows.js";

export class ReplicateRows {
  /**
   * @param {string} experiment  its id
   * @param {() => void} changed  called when rows came or went
   */
  constructor(experiment, changed) {
    this.experiment = experiment;
    this.changed = changed;
    document.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("[data-open-replicates]") : null;
      if (button) this.toggle(/** @type {HTMLTableRowElement} */ (button.closest("tr")));
    });
  }

  /** @param {HTMLTableRowElement} row */
  toggle(row) {
    if (isOpen(row)) this.close(row);
    else this.open(row).then(() => showError(null), showError);
    this.changed();
  }

  /** @param {HTMLTableRowElement} row  of a first trial */
  async open(row) {
    show(row, true);
    const query = new URLSearchParams({ filter: `proposal = ${row.dataset.first}`, page_size: "200" });
    const { results } = await rest("GET", `experiments/${this.experiment}/trials/?${query}`);
    if (!isOpen(row)) return;
    for (const trial of results) this.heard(trial);
    this.changed();
  }

  /** @param {HTMLTableRowElement} row */
  close(row) {
    if (!row.dataset.first) return;
    show(row, false);
    document.querySelectorAll(`#trials-table tr[data-replicate-of="${row.dataset.first}"]`).forEach((one) => one.remove());
  }

  /**
   * A further run of a proposal: shown where its row is open.
   * @param {any} trial
   */
  heard(trial) {
    const { first } = trial.proposal;
    const row = document.querySelector(`#trials-table tr[data-first="${first}"]:not([data-replicate-of])`);
    if (!(row instanceof HTMLTableRowElement) || !isOpen(row) || first === trial.sequence_id
      || document.querySelector(`#trials-table tr[data-id="${trial.id}"]`)) return;
    const made = fillRow(blankRow(), trial);
    made.dataset.replicateOf = String(first);
    made.querySelector("[data-open-replicates]")?.remove();
    const shown = document.querySelectorAll(`#trials-table tr[data-replicate-of="${first}"]`);
    (shown.item(shown.length - 1) ?? row).after(made);
  }

  /**
   * What the row of a first trial offers.
   * @param {HTMLTableRowElement} row
   * @param {any} trial
   */
  offer(row, trial) {
    const button = row.querySelector("[data-open-replicates]");
    if (button instanceof HTMLElement && trial.proposal) {
      row.dataset.first = String(trial.proposal.first);
      button.hidden = trial.proposal.begun < 2;
    }
    return row;
  }
}

/** @param {HTMLTableRowElement} row */
function isOpen(row) {
  return row.querySelector("[data-open-replicates]")?.getAttribute("aria-expanded") === "true";
}

/**
 * @param {HTMLTableRowElement} row
 * @param {boolean} open
 */
function show(row, open) {
  const button = row.querySelector("[data-open-replicates]");
  button?.setAttribute("aria-expanded", String(open));
  const mark = button?.querySelector("[aria-hidden]");
  if (mark) mark.textContent = open ? "▾" : "▸";
}
