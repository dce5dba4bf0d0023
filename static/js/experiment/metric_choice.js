/** Which metric a chart shows: the main one, or a further one that trials report. Kept in the address. */

import { addressState, writeAddress } from "./address_state.js";

export class MetricChoice {
  /** @param {() => void} changed  another one was chosen */
  constructor(changed) {
    this.control = /** @type {HTMLSelectElement} */ (document.getElementById("metric"));
    const wanted = addressState().get("metric") ?? "";
    if ([...this.control.options].some((option) => option.value === wanted)) this.control.value = wanted;
    this.control.addEventListener("change", () => {
      writeAddress({ metric: this.control.value || null });
      changed();
    });
  }

  /** "" for the main one. */
  get name() {
    return this.control.value;
  }

  /** For the address of a request. */
  get query() {
    return this.name ? `metric=${encodeURIComponent(this.name)}` : "";
  }

  /**
   * Metrics that trials of a frame are the first to report can be chosen, too.
   * @param {any[]} trials
   */
  heard(trials) {
    const known = new Set([...this.control.options].map((option) => option.value));
    for (const name of new Set(trials.flatMap((trial) => Object.keys(trial.metrics)))) {
      if (known.has(name)) continue;
      this.control.add(new Option(name, name));
      /** @type {HTMLElement} */ (document.getElementById("metric-choice")).hidden = false;
    }
  }

  /**
   * The final and the latest number of a trial.
   * @param {any} trial
   * @returns {[number | null, number | null]}
   */
  numbersOf(trial) {
    if (!this.name) return [trial.final_number, trial.latest_number];
    const { final = null, latest = null } = trial.metrics[this.name] ?? {};
    return [final, latest];
  }
}
