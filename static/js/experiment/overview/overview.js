/** The first tab: results of all trials, the best ones, how long they took. */

import { addressState, writeAddress } from "../address_state.js";
import { DurationChart } from "./duration_chart.js";
import { page, startHead } from "../head.js";
import { ResultChart } from "./result_chart.js";
import { startNotes } from "../../ui/notes.js";
import { TopTrials } from "./top_trials.js";
import { Verdict } from "./verdict.js";

/** Shortest pause before the server is asked to count durations anew, in milliseconds. */
const COUNT_PAUSE = 5_000;

const results = new ResultChart(/** @type {HTMLElement} */ (document.getElementById("result-chart")), page.experiment);
const durations = new DurationChart(/** @type {HTMLElement} */ (document.getElementById("duration-chart")));
const top = new TopTrials(page);
const frontPlace = document.getElementById("pareto-chart");
/** Most experiments have one objective, and need not load it. @type {import("./pareto_chart.js").ParetoChart | null} */
const front = frontPlace && new (await import("./pareto_chart.js")).ParetoChart(frontPlace, page.experiment);
results.tookAll = (columns) => durations.take(columns.durations);

const axes = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-axis]"));

/** @param {boolean} byTime */
function chooseAxis(byTime) {
  if (results.byTime !== byTime) results.show();
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

const verdict = new Verdict(page.experiment);
/** Most experiments run on one, and need not load it. @type {import("./clusters.js").Clusters | null} */
const clusters = document.querySelector("#clusters, #add-cluster") && new (await import("./clusters.js")).Clusters(page.experiment);
/** @type {number | undefined} */
let counting;

startNotes();
startHead({
  heard(trials) {
    results.heard(trials);
    front?.heard(trials);
    top.heard(trials);
    verdict.heard(trials);
    clusters?.heard();
    if (!durations.heard(trials)) {
      counting ??= setTimeout(() => {
        counting = undefined;
        results.reload();
      }, COUNT_PAUSE);
    }
  },
  told: () => verdict.reload.ask(),
  missed: () => {
    verdict.reload.ask();
    return Promise.all([results.load(), top.refresh(), front?.load()]);
  },
});
results.start();
front?.start();
verdict.start();
