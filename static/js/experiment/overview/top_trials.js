/** The best trials, feasible ones first, then best first: kept exact by what frames tell, since a final result does not change any more. */

import { mayPass } from "../../lib/rest.js";
import { separateResults } from "../../ui/ranked_results.js";
import { refreshParts } from "../../ui/refreshed_parts.js";
import { blankRow, fillRow } from "../trial_rows.js";

/** Shortest pause between two questions for the front, in milliseconds. */
const FRONT_PAUSE = 1_000;

export class TopTrials {
  /** @param {any} page  what the page was made with: experiment, top, top_size */
  constructor(page) {
    this.page = page;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.asking = undefined;
    this.sign = page.experiment.optimize_mode === "maximize" ? -1 : 1;
    /** @type {Map<string, any>} */
    this.trials = new Map(page.top.map((/** @type {any} */ trial) => [trial.id, trial]));
  }

  /**
   * Trials of a frame.
   * @param {any[]} trials
   */
  heard(trials) {
    if (this.page.experiment.objectives.length > 1) {
      if (trials.some((trial) => trial.on_front || this.trials.has(trial.id))) this.askAnew();
      return;
    }
    const counted = trials.filter((trial) => resultOf(trial) !== null);
    if (counted.length === 0) return;
    for (const trial of counted) this.trials.set(trial.id, trial);
    const order = (/** @type {any} */ one, /** @type {any} */ other) => Number(one.feasible === false) - Number(other.feasible === false) || this.sign * (resultOf(one) - resultOf(other)) || one.sequence_id - other.sequence_id;
    const best = [...this.trials.values()].sort(order).slice(0, this.page.top_size);
    this.trials = new Map(best.map((trial) => [trial.id, trial]));
    const body = /** @type {HTMLElement} */ (document.querySelector("#top-trials tbody"));
    const rows = new Map([...body.querySelectorAll("tr[data-id]")].map((row) => [/** @type {HTMLElement} */ (row).dataset.id, row]));
    const now = best.map((trial) => fillRow(/** @type {HTMLTableRowElement} */ (rows.get(trial.id) ?? blankRow()), trial));
    if (now.length !== body.children.length || now.some((row, place) => body.children[place] !== row)) body.replaceChildren(...now);
    separateResults();
    document.getElementById("no-top")?.setAttribute("hidden", "");
  }

  /** Of a front, trials may leave: the server knows who comes in their place. */
  askAnew() {
    this.asking ??= setTimeout(() => {
      this.asking = undefined;
      this.refresh().catch((error) => mayPass(error) && this.askAnew());
    }, FRONT_PAUSE);
  }

  /** As the server has them now. */
  async refresh() {
    const fresh = await refreshParts(["top-trials", "no-top"]);
    this.trials = new Map(JSON.parse(fresh.getElementById("page-data")?.textContent ?? "{}").top.map(
      (/** @type {any} */ trial) => [trial.id, trial]));
  }
}

/**
 * What a trial is ranked by: its result, or of the first trial of a proposal that was run in full the mean; else null.
 * @param {any} trial
 */
function resultOf(trial) {
  const { proposal } = trial;
  if (proposal) return proposal.first === trial.sequence_id && proposal.state === "complete" ? proposal.mean : null;
  return ["SUCCEEDED", "EARLY_STOPPED"].includes(trial.status) ? trial.final_number : null;
}
