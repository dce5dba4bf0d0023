/** By which metric hyper-parameters are compared, and which of its numbers are better. Both are kept in the address. */

import { addressState, writeAddress } from "../address_state.js";
import { MetricChoice } from "../metric_choice.js";

export class ComparedMetric {
  /**
   * @param {{objectives: {metric: string}[]}} experiment
   * @param {() => void} changed  another metric or direction was chosen
   */
  constructor(experiment, changed) {
    this.objectives = experiment.objectives.map((objective) => objective.metric);
    this.choice = new MetricChoice(() => {
      this.show();
      changed();
    });
    this.better = /** @type {HTMLSelectElement} */ (document.getElementById("better"));
    if (addressState().get("better") === "more") this.better.value = "maximize";
    this.better.addEventListener("change", () => {
      writeAddress({ better: this.better.value === "maximize" ? "more" : null });
      changed();
    });
    this.show();
  }

  /** Only of a metric that nobody searches by it must be said which numbers are better. */
  get isOpen() {
    return this.choice.name !== "" && !this.objectives.includes(this.choice.name);
  }

  show() {
    /** @type {HTMLElement} */ (document.getElementById("better-choice")).hidden = !this.isOpen;
  }

  /** The query of a request, with its "?"; "" for the main metric. */
  get query() {
    const direction = this.isOpen ? `&optimize_mode=${this.better.value}` : "";
    return this.choice.name ? `?${this.choice.query}${direction}` : "";
  }

  /** What people call its numbers. */
  get title() {
    return this.choice.name || (this.objectives[0] ?? "result");
  }

  /**
   * Trials of a frame: whether one of them has a final number of it.
   * @param {any[]} trials
   */
  heard(trials) {
    this.choice.heard(trials);
    return trials.some((trial) => ["SUCCEEDED", "EARLY_STOPPED"].includes(trial.status) && this.choice.numbersOf(trial)[0] !== null);
  }
}
