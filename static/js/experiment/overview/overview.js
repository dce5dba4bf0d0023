/** The first tab: results of all trials, the best ones, how long they took. */

import { addressState, writeAddress } from "../address_state.js";
import { DurationChart } from "./duration_chart.js";
import { page, startHead } from "../head.js";
import { ParetoChart } from "./pareto_chart.js";
import { ResultChart } from "./result_chart.js";
import { refreshParts } from "../../ui/refreshed_parts.js";
import { ThrottledReload } from "../throttled_reload.js";
import { TopTrials } from "./top_trials.js";

/** Shortest pause before the server is asked to count durations, or failures, anew, in milliseconds. */
const COUNT_PAUSE = 5_000;

const results = new ResultChart(/** @type {HTMLElement} */ (document.getElementById("result-chart")), page.experiment);
const durations = new DurationChart(/** @type {HTMLElement} */ (document.getElementById("duration-chart")));
const top = new TopTrials(page);
const frontPlace = document.getElementById("pareto-chart");
const front = frontPlace && new ParetoChart(frontPlace, page.experiment);
results.tookAll = (columns) => durations.take(columns.durations);

const axes = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-axis]"));

/** @param {boolean} byTime */
function chooseAxis(byTime) {
  results.byTime = byTime;
  for (const button of axes) button.setAttribute("aria-pressed", String((button.dataset.axis === "time") === byTime));
}

for (const button of axes) {
  button.addEventListener("click", () => {
    chooseAxis(button.dataset.axis === "time");
    writeAddress({ axis: results.byTime ? "time" : null });
    results.redraw?.();
  });
}
const logarithmic = /** @type {HTMLInputElement} */ (document.getElementById("log-axis"));
logarithmic.addEventListener("change", () => {
  results.logarithmic = logarithmic.checked;
  writeAddress({ log: logarithmic.checked ? "1" : null });
  results.redraw?.();
});
chooseAxis(addressState().get("axis") === "time");
results.logarithmic = logarithmic.checked = addressState().get("log") === "1";

const failures = new ThrottledReload(() => refreshParts(["failures"]), COUNT_PAUSE);
/** @type {number | undefined} */
let counting;

startHead({
  heard(trials) {
    results.heard(trials);
    front?.heard(trials);
    top.heard(trials);
    if (trials.some((trial) => trial.status === "FAILED")) failures.ask();
    if (!durations.heard(trials)) {
      counting ??= setTimeout(() => {
        counting = undefined;
        results.load();
      }, COUNT_PAUSE);
    }
  },
  missed: () => {
    failures.ask();
    return Promise.allSettled([results.load(), top.refresh(), front?.load()]);
  },
});
results.start();
front?.start();
