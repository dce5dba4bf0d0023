/** The tab of intermediate results: curves of several trials over each other. */

import { showError } from "../../ui/action_error.js";
import { rest, RestError } from "../../lib/rest.js";
import { addressState, writeAddress } from "../address_state.js";
import { ThrottledReload } from "../../lib/throttled_reload.js";
import { CurveChart } from "./curve_chart.js";
import { CurveTable } from "./curve_table.js";
import { page, startHead } from "../head.js";
import { MetricChoice } from "../metric_choice.js";

/** Milliseconds between two looks at the curves while they grow. */
const PAUSE = 2_000;
/** What it says where there is no curve of the kind that is wanted. @type {Record<string, string>} */
const NOTHING = {
  top: "No trial with a final result has a curve yet. Choose “running” or “latest” to see other trials.",
  running: "No trial runs now.",
  latest: "No trial has reported an intermediate result yet. Trials do it with nni.report_intermediate_result(value); the curves appear here as the results arrive.",
  stopped: page.has_assessor ? "The assessor has stopped no trial so far." : "This experiment has no assessor that would stop trials.",
  chosen: "None of these trials has an intermediate result. Enter numbers of trials, separated by commas.",
};

const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const input = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
const select = (/** @type {string} */ id) => /** @type {HTMLSelectElement} */ (document.getElementById(id));

const chart = new CurveChart(element("curve-chart"), page.experiment.optimize_mode === "maximize");
const table = new CurveTable(/** @type {HTMLTableElement} */ (element("curves")), chart);

/** Take the controls from the address. */
function readAddress() {
  const address = addressState();
  const trials = address.get("trials") ?? "";
  const choose = (/** @type {HTMLSelectElement} */ control, /** @type {string | null} */ value) => {
    if (value !== null && [...control.options].some((option) => option.value === value)) control.value = value;
  };
  choose(select("which"), trials ? "chosen" : address.get("which"));
  choose(select("count"), address.get("count"));
  input("trials").value = trials;
  input("smoothing").value = address.get("smooth") ?? "0";
  chart.byTime = address.get("x") === "time";
  input("log-x").checked = address.get("logx") === "1";
  input("log-y").checked = address.get("logy") === "1";
}

function remember() {
  const chosen = select("which").value === "chosen";
  writeAddress({
    which: chosen || select("which").value === "top" ? null : select("which").value,
    trials: chosen ? wantedTrials().join(",") : null,
    count: chosen || select("count").value === "20" ? null : select("count").value,
    smooth: Number(input("smoothing").value) ? input("smoothing").value : null,
    x: chart.byTime ? "time" : null, logx: input("log-x").checked ? "1" : null, logy: input("log-y").checked ? "1" : null,
  });
}

function wantedTrials() {
  return input("trials").value.split(/[\s,]+/).filter(Boolean);
}

/** Whether the curves of this choice are known; until then nothing is said of there being none. */
let read = false;

/** That retention removed what some of the trials had; "" where it did not. */
let removedNote = "";

/** Show the controls as they are, and the curves. */
function draw() {
  const which = select("which").value;
  element("trials-choice").hidden = which !== "chosen";
  element("count-choice").hidden = which === "chosen";
  chart.smoothing = Number(input("smoothing").value);
  element("smoothing-value").textContent = chart.smoothing ? chart.smoothing.toFixed(2) : "none";
  chart.logX = input("log-x").checked;
  chart.logY = input("log-y").checked;
  for (const button of document.querySelectorAll("[data-axis]")) {
    button.setAttribute("aria-pressed", String((/** @type {HTMLElement} */ (button).dataset.axis === "time") === chart.byTime));
  }
  element("log-y-choice").hidden = !chart.canBeLogarithmic;
  const empty = chart.curves.length === 0;
  element("no-curves").hidden = !empty;
  element("no-curves").textContent = !read ? "Reading the curves …" : removedNote || NOTHING[which];
  element("curve-chart").hidden = empty;
  element("curves").hidden = empty;
  const stopped = chart.curves.filter((curve) => curve.status === "EARLY_STOPPED").length;
  element("stopped-note").hidden = stopped === 0;
  element("curve-chart").setAttribute("aria-label", `Intermediate results of ${chart.curves.length} trials${stopped ? `, of which the assessor stopped ${stopped}` : ""}; the table below has their values`);
  if (empty) return;
  chart.draw();
  table.draw();
}

/** Counts loads, so that a slow answer to an earlier choice is not taken for that to a later one. */
let asked = 0;

async function load() {
  const mine = ++asked;
  const which = select("which").value;
  const trials = wantedTrials();
  element("trials").removeAttribute("aria-invalid");
  if (which === "chosen" && trials.length === 0) {
    chart.curves = [];
    read = true;
    removedNote = "";
    element("chart-note").textContent = "";
    draw();
    return;
  }
  const query = new URLSearchParams(which === "chosen" ? { trials: trials.join(",") } : { which, count: select("count").value });
  if (metric.name) query.set("metric", metric.name);
  let found;
  try {
    found = await rest("GET", `experiments/${page.experiment.id}/series/?${query}`);
  } catch (error) {
    if (mine !== asked || !(error instanceof RestError) || error.status !== 400) throw error;
    element("trials").setAttribute("aria-invalid", "true");
    element("chart-note").textContent = error.sentences;
    return;
  }
  if (mine !== asked) return;
  read = true;
  chart.curves = found.trials.filter((/** @type {any} */ trial) => trial.values.length > 0);
  const words = [];
  if (found.total > found.trials.length) words.push(`${found.trials.length} of ${found.total.toLocaleString()} trials.`);
  const removed = found.trials.filter((/** @type {any} */ trial) => trial.removed_at && trial.values.length === 0).length;
  removedNote = removed ? `Intermediate results of ${removed} of these trials were removed by retention.` : "";
  if (removed && chart.curves.length) words.push(removedNote);
  const without = found.trials.length - chart.curves.length - removed;
  if (without && chart.curves.length) words.push(`${without} of them reported nothing on the way.`);
  const leftOut = chart.curves.reduce((sum, curve) => sum + curve.left_out, 0);
  if (leftOut) words.push(`${leftOut.toLocaleString()} points are left out; peaks are not.`);
  element("chart-note").textContent = words.join(" ");
  draw();
}

const reload = new ThrottledReload(load, PAUSE);
const metric = new MetricChoice(() => load().catch(showError));

/** After a choice of other trials. */
function choose() {
  read = false;
  remember();
  draw();
  load().catch(showError);
}

for (const id of ["which", "count", "trials"]) element(id).addEventListener("change", choose);
for (const id of ["log-x", "log-y"]) {
  element(id).addEventListener("change", () => {
    remember();
    draw();
  });
}
element("smoothing").addEventListener("input", draw);
element("smoothing").addEventListener("change", remember);
for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    chart.byTime = /** @type {HTMLElement} */ (button).dataset.axis === "time";
    remember();
    draw();
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

readAddress();
startHead({
  heard(trials) {
    metric.heard(trials);
    // of the chosen ones only these matter; of a kind, whoever comes or goes
    const shown = new Set(wantedTrials());
    if (select("which").value !== "chosen" || trials.some((trial) => shown.has(trial.id) || shown.has(String(trial.sequence_id)))) reload.ask();
  },
  async missed() {
    reload.ask();
  },
});
draw();
load().catch(showError).finally(() => reload.loaded());
