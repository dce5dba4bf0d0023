/** The chart of several objectives: a point for every result, the Pareto front marked; a click leads to the trial. */

import { axis, colour, statusColour, tooltip } from "../../charts/chart.js";
import { digits, tick } from "../../lib/formats.js";
import { addressState, writeAddress } from "../address_state.js";
import { TrialPoints } from "./trial_points.js";

/** From so many points on they are drawn as one shape, smaller. */
const MANY = 500;

/** @typedef {{id: string, sequence: number, onFront: boolean, values: number[]}} Point */

/** @extends {TrialPoints<Point>} */
export class ParetoChart extends TrialPoints {
  /**
   * @param {HTMLElement} element
   * @param {{id: string, objectives: {metric: string, optimize_mode: string}[]}} experiment
   */
  constructor(element, experiment) {
    super(element);
    this.experiment = experiment;
    this.objectives = experiment.objectives;
    this.leftOut = 0;
    /** Which objectives are drawn across and up. */
    this.across = 0;
    this.up = 1;
    this.log = /** @type {HTMLInputElement} */ (document.getElementById("front-log"));
    this.log.checked = addressState().get("frontlog") === "1";
    this.log.addEventListener("change", () => {
      writeAddress({ frontlog: this.log.checked ? "1" : null });
      this.redraw?.();
    });
    for (const [id, which] of /** @type {[string, "across" | "up"][]} */ ([["objective-across", "across"], ["objective-up", "up"]])) {
      const control = /** @type {HTMLSelectElement} */ (document.getElementById(id));
      control.value = String(this[which]);
      control.addEventListener("change", () => {
        this[which] = Number(control.value);
        this.redraw?.();
      });
    }
  }

  get path() {
    return `experiments/${this.experiment.id}/front/`;
  }

  /** @param {any} columns */
  takeAll(columns) {
    columns.sequence_id.forEach((/** @type {number} */ sequence, /** @type {number} */ index) => {
      this.points.set(sequence, { id: columns.id[index], sequence, onFront: columns.on_front[index] === 1, values: columns.values[index] });
    });
    this.leftOut = columns.left_out;
  }

  /** @param {any} trial */
  take(trial) {
    if (!["SUCCEEDED", "EARLY_STOPPED"].includes(trial.status)) return;
    const [, ...further] = this.objectives;
    const values = [trial.final_number, ...further.map((objective) => trial.metrics[objective.metric]?.final ?? null)];
    if (values.includes(null)) return;
    this.points.set(trial.sequence_id, { id: trial.id, sequence: trial.sequence_id, onFront: trial.on_front, values });
  }

  note() {
    const front = [...this.points.values()].filter((point) => point.onFront).length;
    const words = this.points.size === 0 ? ["No trial has a number for every objective yet."] : [`${front} trial${front === 1 ? " is" : "s are"} on the front.`];
    if (this.leftOut) words.push(`${this.leftOut.toLocaleString()} of the others are left out here.`);
    const note = document.getElementById("front-note");
    if (note) note.textContent = words.join(" ");
    /** @type {HTMLElement} */ (document.getElementById("front-log-choice")).hidden = !this.canBeLogarithmic;
    this.element.setAttribute("aria-label", `Results in two objectives; ${words[0]} The table below has them`);
  }

  get canBeLogarithmic() {
    return this.points.size > 0 && [...this.points.values()].every((point) => point.values.every((value) => value > 0));
  }

  /** @param {number} place */
  title(place) {
    const { metric, optimize_mode: mode } = this.objectives[place];
    return `${metric} (${mode})`;
  }

  options() {
    const { across, up } = this;
    const all = [...this.points.values()];
    const front = all.filter((point) => point.onFront).sort((one, other) => one.values[across] - other.values[across]);
    this.drawn = { results: all.filter((point) => !point.onFront), front };
    const places = (/** @type {Point[]} */ points) => points.map((point) => [point.values[across], point.values[up]]);
    const type = this.log.checked && this.canBeLogarithmic ? "log" : "value";
    const many = this.drawn.results.length > MANY;
    return {
      tooltip: tooltip({
        trigger: "item",
        formatter: (/** @type {any} */ event) => {
          const point = this.pointOf(event);
          if (!point) return "";
          const lines = this.objectives.map((objective, place) => `${objective.metric}: ${digits(point.values[place])}`);
          return [`trial ${point.sequence}${point.onFront ? ", on the front" : ""}`, ...lines].join("\n");
        },
      }),
      legend: { top: 0, right: 8, itemHeight: 8, itemWidth: 14, textStyle: { color: colour("--quiet") }, inactiveColor: colour("--line"), data: ["results", "front"] },
      grid: { left: 8, right: 28, top: 40, bottom: 28, containLabel: true },
      xAxis: axis({ type, scale: true, name: this.title(across), nameLocation: "middle", nameGap: 28, axisLabel: { color: colour("--quiet"), formatter: tick, hideOverlap: true } }),
      yAxis: axis({ type, scale: true, name: this.title(up), nameLocation: "end", nameGap: 12, nameTextStyle: { color: colour("--quiet"), align: "left" }, nameTruncate: { maxWidth: Math.max(80, this.element.clientWidth - 180) }, axisLabel: { color: colour("--quiet"), formatter: tick } }),
      series: [
        { name: "results", type: "scatter", data: places(this.drawn.results), symbolSize: many ? 4 : 7, itemStyle: { color: statusColour("SUCCEEDED"), opacity: 0.6 }, large: true, largeThreshold: MANY, cursor: "pointer" },
        // of more than two objectives a front is no line
        { name: "front", type: "line", step: this.objectives.length === 2 ? "end" : false, data: places(front), symbol: "circle", symbolSize: 10, showAllSymbol: true, lineStyle: { color: colour("--chart-best"), width: this.objectives.length === 2 ? 1.5 : 0 }, itemStyle: { color: colour("--chart-best") }, cursor: "pointer", z: 3 },
      ],
    };
  }
}
