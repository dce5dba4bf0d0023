/** Keeps the table of trials live: rows change where they stand; new ones come on top where the newest are first. */

import { confirmed } from "./confirm.js";
import { refreshParts, rest, RestError } from "./rest.js";
import { isEnd, showStatus, showText } from "./status.js";
import { digits, duration, parameter } from "./words.js";

export class TrialsTable {
  /** @param {any} page  what the page was made with: parameters, order, is_filtered, first_page, page_size */
  constructor(page) {
    this.page = page;
    /** New trials that are not in the table. @type {Set<string>} */
    this.elsewhere = new Set();
    this.newest = Math.max(-1, ...this.rows().map((row) => Number(row.querySelector('[data-cell="number"]')?.textContent)));
    this.more = /** @type {HTMLButtonElement} */ (document.getElementById("more-trials"));
    this.more.addEventListener("click", () => this.refresh());
    document.getElementById("trials-table")?.parentElement?.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("button[data-action]") : null;
      if (button instanceof HTMLButtonElement) this.act(button);
    });
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
      if (row) this.fill(row, trial);
      else if (trial.sequence_id > this.newest) {
        if (grows) this.body.prepend(this.fill(this.blankRow(), trial));
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

  blankRow() {
    const template = /** @type {HTMLTemplateElement} */ (document.getElementById("trial-row"));
    const row = template.content.querySelector("tr");
    return /** @type {HTMLTableRowElement} */ (row?.cloneNode(true));
  }

  /**
   * @param {HTMLTableRowElement} row
   * @param {any} trial
   */
  fill(row, trial) {
    const cell = (/** @type {string} */ name) => row.querySelector(`[data-cell="${name}"]`);
    if (row.dataset.id !== trial.id) {
      row.dataset.id = trial.id;
      const link = /** @type {HTMLAnchorElement} */ (cell("number"));
      link.href = `/trials/${trial.id}/`;
      link.textContent = String(trial.sequence_id);
      for (const place of row.querySelectorAll("[data-parameter]")) {
        place.textContent = parameter((trial.parameters ?? {})[/** @type {HTMLElement} */ (place).dataset.parameter ?? ""]);
      }
      showText(cell("parameters"), Object.entries(trial.parameters ?? {}).map(([name, value]) => `${name} ${parameter(value)}`).join(", "));
    }
    showStatus(cell("status"), trial.status);
    showText(cell("result"), digits(trial.final_number));
    showText(cell("latest"), trial.intermediate_count ? digits(trial.latest_number) : "");
    showText(cell("duration"), duration(trial.duration));
    showText(cell("machine"), trial.machine);
    showText(cell("message"), trial.message);
    /** @type {HTMLElement} */ (cell("message")).title = trial.message;
    const ended = isEnd(trial.status);
    for (const button of row.querySelectorAll("button[data-action]")) {
      if (button instanceof HTMLButtonElement) button.hidden = (button.dataset.action === "cancel") === ended;
    }
    return row;
  }

  /** @param {HTMLButtonElement} button */
  async act(button) {
    const row = /** @type {HTMLTableRowElement} */ (button.closest("tr"));
    const number = row.querySelector('[data-cell="number"]')?.textContent;
    const cancel = button.dataset.action === "cancel";
    const sure = await confirmed(cancel
      ? { title: `Cancel trial ${number}?`, text: "It ends now; what it has not reported yet is lost.", action: "Cancel the trial" }
      : { title: `Run trial ${number} again?`, text: "A new trial with the same parameters is queued. It counts towards the most trials.", action: "Run it again" });
    if (!sure) return;
    button.disabled = true;
    try {
      const trial = await rest("POST", `trials/${row.dataset.id}/actions/${button.dataset.action}/`);
      this.heard([trial]);
    } catch (error) {
      showError(error);
    } finally {
      button.disabled = false;
    }
  }
}

/**
 * Say beside the title why something could not be done; nothing takes it away again.
 * @param {unknown} error
 */
export function showError(error) {
  const place = document.getElementById("action-error");
  if (!place) return;
  place.textContent = error instanceof RestError ? error.sentences : error ? String(error) : "";
  place.hidden = !error;
  if (error) place.scrollIntoView({ block: "nearest" });
}
