/**
 * The card above the chart, and what else of the page changes with ended trials alone: kept as the server has it. Which
 * parameters matter most is asked for when the page is drawn.
 */

import { rest } from "../../lib/rest.js";
import { keepWhileSame, refreshParts } from "../../ui/refreshed_parts.js";
import { ThrottledReload } from "../../lib/throttled_reload.js";

/** Shortest pauses before the card, and before what matters, is taken anew, in milliseconds. */
const PAUSE = 5_000;
const MATTERS_PAUSE = 60_000;
/** By which tuner Auto proposes, how well results of earlier experiments agree, and what was used so far. */
const FACTS = ["tuner-choice", "started-from", "budgets"];
/** So many parameters are named. */
const NAMED = 2;

export class Verdict {
  /** @param {any} experiment */
  constructor(experiment) {
    this.id = experiment.id;
    this.best = experiment.progress.best_trial_id;
    this.status = experiment.status;
    keepWhileSame(FACTS);
    this.reload = new ThrottledReload(() => refreshParts(["verdict", "failures", ...FACTS]), PAUSE);
    /** Whether there are enough results to tell what matters: until then the question costs little. */
    this.areEnough = false;
    this.matters = new ThrottledReload(() => this.loadMatters(), MATTERS_PAUSE);
    this.first = new ThrottledReload(() => this.loadMatters(), PAUSE);
    document.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("[data-do]") : null;
      if (!(button instanceof HTMLElement)) return;
      /** @type {HTMLElement | null} */ (document.querySelector(`#controls [data-action="${button.dataset.do}"]`))?.click();
    });
  }

  /** After the charts: they come first. */
  start() {
    const ask = () => this.matters.ask();
    if ("requestIdleCallback" in window) requestIdleCallback(ask, { timeout: 3_000 });
    else setTimeout(ask, 500);
  }

  /**
   * Trials of a frame.
   * @param {any[]} trials
   */
  heard(trials) {
    const ended = trials.filter((trial) => trial.ended_at);
    if (!ended.length) return;
    this.reload.ask();
    (this.areEnough ? this.matters : this.first).ask();
  }

  async loadMatters() {
    const place = document.querySelector("#matters ol");
    const found = await rest("GET", `experiments/${this.id}/parameters/importance/`);
    if (!place) return;
    this.areEnough = found.looked_at > 0;
    if (!this.areEnough) {
      say(place, found.trials < found.needed ? `Known from ${found.needed} results on.` : "There are no parameters to compare.");
      return;
    }
    const rows = found.parameters.filter((/** @type {any} */ row) => row.importance !== null)
      .sort((/** @type {any} */ one, /** @type {any} */ other) => other.importance - one.importance).slice(0, NAMED);
    place.replaceChildren(...rows.map((/** @type {any} */ row) => {
      const item = document.createElement("li");
      const name = document.createElement("b");
      name.textContent = row.name;
      const share = document.createElement("span");
      share.className = "quiet";
      share.textContent = ` ${Math.round(row.importance * 100)} %${direction(row.correlation)}`;
      const bar = document.createElement("progress");
      bar.max = 1;
      bar.value = row.importance;
      bar.setAttribute("aria-label", `Importance of ${row.name}`);
      item.append(name, share, bar);
      return item;
    }));
  }
}

/** How the result goes with a parameter, where it clearly does. @param {number | null} correlation */
function direction(correlation) {
  if (correlation === null || Math.abs(correlation) < 0.3) return "";
  return correlation > 0 ? ", result rises with it" : ", result falls with it";
}

/**
 * @param {Element} place
 * @param {string} words
 */
function say(place, words) {
  const item = document.createElement("li");
  item.className = "quiet";
  item.textContent = words;
  place.replaceChildren(item);
}
