/** The first tab: results of all trials, the best ones, how long they took. */

import { DurationChart } from "./duration_chart.js";
import { page, startHead } from "./head.js";
import { ResultChart } from "./result_chart.js";
import { TopTrials } from "./top_trials.js";

/** Shortest pause before the server is asked to count durations anew, in milliseconds. */
const COUNT_PAUSE = 5_000;

const results = new ResultChart(/** @type {HTMLElement} */ (document.getElementById("result-chart")), page.experiment);
const durations = new DurationChart(/** @type {HTMLElement} */ (document.getElementById("duration-chart")));
const top = new TopTrials(page);
results.tookAll = (columns) => durations.take(columns.durations);

for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    results.byTime = /** @type {HTMLElement} */ (button).dataset.axis === "time";
    for (const other of document.querySelectorAll("[data-axis]")) other.setAttribute("aria-pressed", String(other === button));
    results.redraw?.();
  });
}
document.getElementById("log-axis")?.addEventListener("change", (event) => {
  results.logarithmic = /** @type {HTMLInputElement} */ (event.target).checked;
  results.redraw?.();
});

/** @type {number | undefined} */
let counting;

startHead({
  heard(trials) {
    results.heard(trials);
    top.heard(trials);
    if (!durations.heard(trials)) {
      counting ??= setTimeout(() => {
        counting = undefined;
        results.load();
      }, COUNT_PAUSE);
    }
  },
  missed: () => Promise.allSettled([results.load(), top.refresh()]),
});
results.start();
