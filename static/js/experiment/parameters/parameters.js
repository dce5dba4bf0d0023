/** The tab of hyper-parameters: which of them make a trial good. */

import { showError } from "../../ui/action_error.js";
import { findInList } from "../../ui/find_in_list.js";
import { digits } from "../../lib/formats.js";
import { addressState, writeAddress } from "../address_state.js";
import { AxisRanges } from "./axis_ranges.js";
import { ThrottledReload } from "../../lib/throttled_reload.js";
import { showChosen } from "./chosen_trials.js";
import { ContourChart } from "./contour_chart.js";
import { ComparedMetric } from "./compared_metric.js";
import { page, startHead } from "../head.js";
import { ImportanceTable } from "./importance_table.js";
import { ParallelChart } from "./parallel_chart.js";
import { ParameterData, RESULT } from "./parameter_data.js";
import { SliceCharts } from "./slice_charts.js";

/** Milliseconds between two looks at all results, and at what matters, which is dear to work out. */
const PAUSE = 5_000;
const IMPORTANCE_PAUSE = 30_000;
/** Of more parameters not all get an axis unless somebody wants it. */
const MOST_AXES = 12;
/** Of more parameters not all get a chart of their own at once. */
const MOST_SLICES = 12;

const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const select = (/** @type {string} */ id) => /** @type {HTMLSelectElement} */ (document.getElementById(id));

const metric = new ComparedMetric(page.experiment, another);
const data = new ParameterData(page.experiment, metric);
const parallel = new ParallelChart(element("parallel-chart"), data, chose, arrange);
const ranges = new AxisRanges(element("axis-ranges"), data, chose);
const slices = new SliceCharts(element("slices"), data);
const contour = new ContourChart(element("contour-chart"), data);
const importance = new ImportanceTable(page.experiment.id, (name) => data.title(name), metric);

/** Names of the axes that somebody chose, in their order; none: the most important ones. @type {string[]} */
let axes = addressState().getAll("axis");
/**
 * The parameters by importance, the most important first, as it was known first: axes do not change their places while
 * somebody looks at them. @type {string[]}
 */
let ranking = [];
let slicesAreAll = false;

/** All parameters, the most important first; while that is not known as the search space has them. */
function ranked() {
  const names = data.columns.map((column) => column.name);
  const known = new Set(names);
  const first = ranking.filter((name) => known.has(name));
  return [...first, ...names.filter((name) => !first.includes(name))];
}

/** The axes that are drawn. */
function shownAxes() {
  const names = ranked();
  const wanted = axes.filter((name) => names.includes(name));
  return wanted.length ? wanted : names.slice(0, MOST_AXES);
}

/**
 * Draw these axes, in this order.
 * @param {string[]} names
 */
function arrange(names) {
  const isUsual = names.join("\n") === ranked().slice(0, MOST_AXES).join("\n");
  axes = isUsual ? [] : names;
  writeAddress({ axis: isUsual ? null : axes });
  axisChoices();
  draw();
}

/** The first answer about what matters. */
function rank() {
  if (ranking.length || importance.order.length === 0) return;
  ranking = importance.order;
  axisChoices();
  draw();
}

/** After a choice of "top x %" or of a range. */
function chose() {
  data.remember();
  draw();
}

function draw() {
  const empty = data.trials.length === 0;
  element("no-results").hidden = !empty || metric.choice.name !== "";
  element("no-numbers").hidden = !empty || metric.choice.name === "";
  element("no-numbers").textContent = `No trial has a final number of ${metric.title} yet.`;
  element("analysis").hidden = empty;
  if (empty) return;
  const names = shownAxes();
  parallel.draw(names).then(() => setTimeout(drawBelow)); // what is seen first comes first
  showChosen(data, names);
  legend();
  const words = [];
  if (data.leftOut) words.push(`${data.trials.length.toLocaleString()} of ${data.total.toLocaleString()} trials are drawn: the best ${data.bestDrawn.toLocaleString()} and every so many of the others.`);
  if (names.length < data.columns.length) words.push(`${names.length} of ${data.columns.length} parameters have an axis${axes.length ? "" : ranking.length ? ", the most important first" : ", until it is known which are important"}.`);
  element("chart-note").textContent = words.join(" ");
  element("clear-ranges").hidden = data.ranges.size === 0;
  element("log-choice").hidden = !data.canBeLogarithmic;
  const [best] = data.chosen();
  element("parallel-chart").setAttribute("aria-label", `${data.chosen().length} trials across ${names.length} parameters and their ${data.title(RESULT)}${best ? `; the best is trial ${best.sequence} with ${digits(best.value)}` : ""}. The table below has the best of them.`);
}

/** What stands below the chart and the table, as it is when its turn comes. */
function drawBelow() {
  if (data.trials.length === 0) return;
  ranges.draw(shownAxes());
  const drawn = ranked();
  slices.draw(slicesAreAll ? drawn : drawn.slice(0, MOST_SLICES));
  element("all-slices").hidden = slicesAreAll || drawn.length <= MOST_SLICES;
  element("all-slices").textContent = `Show all ${drawn.length}`;
  showPair();
}

function legend() {
  const unbent = (/** @type {number} */ value) => (data.result?.logarithmic ? Math.exp(value) : value);
  element("legend-worst").textContent = `${digits(unbent(data.colours.worst))}${data.colours.isClipped ? " and worse" : ""}`;
  element("legend-best").textContent = `${digits(unbent(data.colours.best))} (best)`;
}

/** The two parameters of the contour: those of the address, else the two that matter most and that trials have together. */
function showPair() {
  const names = data.columns.map((column) => column.name);
  const address = addressState();
  const ranked = [...importance.order.filter((name) => names.includes(name)), ...names.filter((name) => !importance.order.includes(name))];
  const [x, y] = [select("contour-x"), select("contour-y")];
  for (const choice of [x, y]) {
    if ([...choice.options].map((option) => option.value).join("\n") === names.join("\n")) continue;
    choice.replaceChildren(...names.map((name) => new Option(data.title(name), name)));
  }
  const pick = (/** @type {string} */ key, /** @type {string[]} */ otherwise) => {
    const wanted = address.get(key);
    return wanted !== null && names.includes(wanted) ? wanted : otherwise[0];
  };
  x.value = pick("x", ranked.filter((name) => name !== address.get("y")));
  const others = ranked.filter((name) => name !== x.value);
  const together = others.find((name) => contour.points(x.value, name).length > 0);
  y.value = pick("y", together === undefined ? others : [together]) ?? x.value;
  element("contour").hidden = names.length < 2;
  if (names.length < 2) return;
  contour.draw(x.value, y.value);
  const count = contour.points().length;
  element("contour-note").textContent = count < data.trials.length ? `${count.toLocaleString()} of the ${data.trials.length.toLocaleString()} trials have both.` : "";
  element("contour-chart").setAttribute("aria-label", `Mean ${data.title(RESULT)} over ${data.title(x.value)} and ${data.title(y.value)}, from ${count} trials`);
}

function axisChoices() {
  const shown = new Set(shownAxes());
  const names = ranked();
  const boxes = /** @type {HTMLInputElement[]} */ ([...element("axis-choices").querySelectorAll("input")]);
  if (boxes.map((box) => box.value).join("\n") !== names.join("\n")) {
    element("axis-choices").replaceChildren(...names.map((name) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.value = name;
      label.append(box, ` ${data.title(name)}`);
      return label;
    }));
  }
  for (const box of element("axis-choices").querySelectorAll("input")) box.checked = shown.has(box.value);
}

select("top").value = String(data.top);
if (!select("top").value) data.top = Number(select("top").value = "100");
select("top").addEventListener("change", () => {
  data.top = Number(select("top").value);
  chose();
});
const log = /** @type {HTMLInputElement} */ (element("log-axis"));
log.checked = data.logarithmic;
log.addEventListener("change", () => {
  data.logarithmic = log.checked;
  data.rescale();
  chose();
});
element("clear-ranges").addEventListener("click", () => {
  data.ranges.clear();
  chose();
  select("top").focus(); // the button is gone
});
element("axis-choices").addEventListener("change", (event) => {
  const box = /** @type {HTMLInputElement} */ (event.target);
  const others = shownAxes().filter((name) => name !== box.value);
  arrange(box.checked ? [...others, box.value] : others);
});
element("usual-axes").addEventListener("click", () => arrange([]));
element("all-axes").addEventListener("click", () => arrange(ranked()));
element("all-slices").addEventListener("click", () => {
  slicesAreAll = true;
  drawBelow();
  /** @type {HTMLElement | null} */ (element("slices").querySelector(`figure:nth-of-type(${MOST_SLICES + 1})`))?.focus();
});
findInList(/** @type {HTMLInputElement} */ (element("find-axis")));
for (const [id, key] of [["contour-x", "x"], ["contour-y", "y"]]) {
  select(id).addEventListener("change", () => {
    writeAddress({ [key]: select(id).value });
    showPair();
  });
}

async function load() {
  if (!await data.load()) return;
  draw();
  axisChoices();
  lookAgain();
}

/** What matters may be another now. */
function lookAgain() {
  if (data.total !== importance.trials && data.total > 0 && importance.loading === 0) importanceReload.ask();
}

/** Another metric, or another direction of it: everything, at once. */
async function another() {
  data.setRange(RESULT, null);
  data.remember();
  importance.clear();
  ranking = [];
  const told = importance.load(); // not after the pause that others make
  await load().catch(showError);
  await told;
  rank();
  showPair();
  lookAgain();
}

const reload = new ThrottledReload(load, PAUSE);
const importanceReload = new ThrottledReload(async () => {
  await importance.load();
  rank();
  showPair();
}, IMPORTANCE_PAUSE);

startHead({
  heard(trials) {
    if (metric.heard(trials)) reload.ask();
  },
  async missed() {
    reload.ask();
  },
  told: () => reload.ask(), // the search space may be another one
});
load().catch(showError).finally(() => reload.loaded());
