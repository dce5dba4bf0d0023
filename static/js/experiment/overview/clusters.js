/** The clusters of an experiment that runs on several: what runs on each, and changes of the list. */

import { rest } from "../../lib/rest.js";

/** Shortest pause before the server is asked again, in milliseconds. */
const PAUSE = 3_000;

/** @typedef {{name: string, drained?: boolean, upTo?: number | null, weight?: number}} Entry */

export class Clusters {
  /** @param {any} experiment  its document */
  constructor(experiment) {
    this.path = `experiments/${experiment.id}/`;
    this.home = experiment.cluster;
    /** @type {number | undefined} */
    this.asking = undefined;
    this.place = document.getElementById("clusters");
    this.place?.addEventListener("click", (event) => this.clicked(/** @type {HTMLElement} */ (event.target)));
    this.place?.addEventListener("change", (event) => this.typed(/** @type {HTMLInputElement} */ (event.target)));
    document.getElementById("add-cluster")?.addEventListener("click", () => {
      const name = /** @type {HTMLSelectElement} */ (document.getElementById("further-cluster")).value;
      this.change((entries) => [...entries, { name }]);
    });
  }

  /** Something of the experiment has changed. */
  heard() {
    if (!this.place) return;
    this.asking ??= setTimeout(() => {
      this.asking = undefined;
      this.refresh();
    }, PAUSE);
  }

  async refresh() {
    for (const one of await rest("GET", `${this.path}clusters/`)) this.fill(one);
  }

  /** @param {any} one */
  fill(one) {
    const row = this.place?.querySelector(`[data-cluster="${CSS.escape(one.name)}"]`);
    if (!row) return;
    const texts = { running: one.running, waiting: one.waiting, ended: one.ended, hours: one.hours.toFixed(2),
                    spent: one.spent === null ? "–" : one.spent.toFixed(2), message: one.message };
    for (const [name, text] of Object.entries(texts)) {
      const cell = row.querySelector(`[data-cell="${name}"]`);
      if (cell && cell.textContent !== String(text)) cell.textContent = String(text);
    }
    const gets = one.is_listed && !one.drained;
    for (const [name, hidden] of [["drain", !gets], ["fill", gets]]) {
      const button = /** @type {HTMLElement | null} */ (row.querySelector(`[data-edit="${name}"]`));
      if (button) button.hidden = Boolean(hidden);
    }
  }

  /** @param {HTMLElement} target */
  clicked(target) {
    const { edit } = target.dataset;
    const name = /** @type {HTMLElement | null} */ (target.closest("[data-cluster]"))?.dataset.cluster;
    if (!edit || !name) return;
    this.change((entries) => entries.some((one) => one.name === name)
      ? entries.map((one) => one.name === name ? { ...one, drained: edit === "drain" } : one)
      : [...entries, { name }]);
  }

  /** @param {HTMLInputElement} input */
  typed(input) {
    const { limit } = input.dataset;
    const name = /** @type {HTMLElement | null} */ (input.closest("[data-cluster]"))?.dataset.cluster;
    if (!limit || !name) return;
    const value = input.value === "" ? null : Number(input.value);
    this.change((entries) => entries.map((one) => one.name === name ? { ...one, [limit]: value ?? undefined } : one));
  }

  /** @param {(entries: Entry[]) => Entry[]} edit */
  async change(edit) {
    const error = /** @type {HTMLElement} */ (document.getElementById("clusters-error"));
    error.hidden = true;
    try {
      const now = await rest("GET", this.path);
      const entries = now.clusters.length ? now.clusters : [{ name: this.home }];
      await rest("PATCH", this.path, { clusters: edit(entries) });
      const known = (/** @type {string} */ name) => this.place?.querySelector(`[data-cluster="${CSS.escape(name)}"]`);
      if (edit(entries).some((one) => !known(one.name))) location.reload();
      else await this.refresh();
    } catch (refused) {
      error.textContent = /** @type {Error} */ (refused).message;
      error.hidden = false;
    }
  }
}
