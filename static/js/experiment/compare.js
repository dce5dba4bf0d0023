/** The tab that shows chosen trials side by side. */

import { showError } from "../action_error.js";
import { refreshParts, rest } from "../rest.js";
import { addressState, writeAddress } from "./address_state.js";
import { CompareChart } from "./compare_chart.js";
import { page, startHead } from "./head.js";
import { fillCells } from "./trial_rows.js";

/** Shortest pause between two requests for curves, in milliseconds. */
const PAUSE = 1_000;
/** Points of each curve. */
const POINTS = 400;

const place = document.getElementById("compare-chart");
const chart = place ? new CompareChart(place, page.curves) : null;
const sign = page.experiment.optimize_mode === "maximize" ? 1 : -1;
let loading = false;
let again = false;

async function load() {
  if (!chart || page.trials.length === 0) return;
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  try {
    chart.take((await rest("GET", `experiments/${page.experiment.id}/series/?trials=${page.trials.join(",")}&points=${POINTS}`)).trials);
  } catch (error) {
    showError(error);
  }
  setTimeout(() => {
    loading = false;
    if (again) {
      again = false;
      load();
    }
  }, PAUSE);
}

/** Say which result is the best of these. */
function markBest() {
  const cells = [...document.querySelectorAll('#compare-table [data-cell="result"]')];
  const values = cells.map((cell) => (cell.textContent === "–" ? -Infinity : sign * Number(cell.textContent)));
  const best = Math.max(...values);
  cells.forEach((cell, index) => cell.classList.toggle("best", Number.isFinite(best) && values[index] === best));
}

/** @param {any[]} trials */
function heard(trials) {
  let curvesChanged = false;
  for (const trial of trials) {
    if (!page.trials.includes(trial.id)) continue;
    const cell = (/** @type {string} */ name) => document.querySelector(`#compare-table [data-of="${trial.id}"] [data-cell="${name}"]`);
    curvesChanged ||= cell("intermediates")?.textContent !== String(trial.intermediate_count);
    fillCells(cell, trial);
  }
  markBest();
  if (curvesChanged) load();
}

const only = document.getElementById("only-differing");
only?.addEventListener("change", () => {
  const { checked } = /** @type {HTMLInputElement} */ (only);
  document.getElementById("compare-table")?.classList.toggle("only-differing", checked);
  writeAddress({ only: checked ? "differing" : null });
  /** @type {HTMLInputElement} */ (document.querySelector('#add-trial [name="only"]')).value = checked ? "differing" : "";
  for (const link of document.querySelectorAll("#compare-table thead a[aria-label]")) {
    const address = new URL(/** @type {HTMLAnchorElement} */ (link).href);
    if (checked) address.searchParams.set("only", "differing");
    else address.searchParams.delete("only");
    /** @type {HTMLAnchorElement} */ (link).href = address.href;
  }
});
const logarithmic = /** @type {HTMLInputElement | null} */ (document.getElementById("log-axis"));
logarithmic?.addEventListener("change", () => {
  writeAddress({ log: logarithmic.checked ? "1" : null });
  chart?.setLogarithmic(logarithmic.checked);
});
if (logarithmic && chart) chart.logarithmic = logarithmic.checked = addressState().get("log") === "1";

startHead({
  heard,
  missed: async () => {
    await refreshParts(["compare-table"]);
    markBest();
    await load();
  },
});
markBest();
load();
