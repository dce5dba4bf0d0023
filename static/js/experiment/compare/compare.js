/** The tab that shows chosen trials side by side. */

import { showError } from "../../ui/action_error.js";
import { rest } from "../../lib/rest.js";
import { separateResults } from "../../ui/ranked_results.js";
import { refreshParts } from "../../ui/refreshed_parts.js";
import { addressState, writeAddress } from "../address_state.js";
import { CompareChart } from "./compare_chart.js";
import { page, startHead } from "../head.js";
import { MetricChoice } from "../metric_choice.js";
import { fillCells, fillMetrics } from "../trial_rows.js";

/** Shortest pause between two requests for curves, in milliseconds. */
const PAUSE = 1_000;
/** Points of each curve. */
const POINTS = 400;

const place = document.getElementById("compare-chart");
const chart = place ? new CompareChart(place, page.curves) : null;
const metric = chart ? new MetricChoice(load) : null;
let loading = false;
let again = false;

/** Take the curves anew. */
async function load() {
  if (!chart || page.trials.length === 0) return;
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  try {
    const asked = metric?.query ?? "";
    const { trials } = await rest("GET", `experiments/${page.experiment.id}/series/?trials=${page.trials.join(",")}&points=${POINTS}${asked && `&${asked}`}`);
    if (asked === (metric?.query ?? "")) chart.take(trials); // else another one was chosen meanwhile, and is asked for next
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

/** Say which result is the best of these, and of further objectives, too. */
function markBest() {
  for (const row of document.querySelectorAll("#compare-table [data-mode]")) {
    const sign = row.getAttribute("data-mode") === "maximize" ? 1 : -1;
    const cells = [...row.querySelectorAll("td span")];
    const values = cells.map((cell) => {
      const number = /** @type {HTMLElement} */ (cell).dataset.number ?? "";
      return number === "" || cell.closest("[data-infeasible]") ? -Infinity : sign * Number(number);
    });
    const best = Math.max(...values);
    cells.forEach((cell, index) => cell.classList.toggle("best", Number.isFinite(best) && values[index] === best));
  }
}

/** Say which facts differ. Of parameters the server has said it: a trial keeps what it was given. */
function markDiffering() {
  for (const row of document.querySelectorAll("#compare-table tr[data-fact]")) {
    const cells = [...row.querySelectorAll("td")].map((cell) => cell.textContent);
    row.classList.toggle("same", cells.every((text) => text === cells[0]));
  }
}

/** The table anew: also where trials have reported the first number of a metric. */
async function refreshTable() {
  await refreshParts(["compare-table"]);
  separateResults();
  markBest();
  markDiffering();
}

/** @param {any[]} trials */
function heard(trials) {
  metric?.heard(trials);
  let curvesChanged = false;
  let hasNew = false;
  for (const trial of trials) {
    if (!page.trials.includes(trial.id)) continue;
    const cell = (/** @type {string} */ name) => document.querySelector(`#compare-table [data-of="${trial.id}"] [data-cell="${name}"]`);
    curvesChanged ||= cell("intermediates")?.textContent !== String(trial.intermediate_count);
    fillCells(cell, trial);
    fillMetrics(document.querySelectorAll(`#compare-table [data-of="${trial.id}"] [data-metric]`), trial);
    hasNew ||= Object.entries(trial.metrics).some(([name, numbers]) => ["final", "latest"].some((part) => numbers[part] !== null
      && !document.querySelector(`#compare-table [data-metric="${CSS.escape(name)}"][data-part="${part}"]`)));
  }
  separateResults();
  markBest();
  markDiffering();
  if (hasNew) refreshTable().catch(() => {}); // the light says that there is no connection
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
    await refreshTable();
    await load();
  },
});
markBest();
markDiffering();
load();
