/** One trial's intermediate results. */

import { axis, colour, makeChart } from "./chart.js";
import { digits, tick } from "../lib/formats.js";

/** Points kept while results come; beyond, every second one is left out. */
const MOST_POINTS = 5_000;

export class MetricChart {
  /**
   * @param {HTMLElement} element
   * @param {[number, number][]} curve  sequence and value
   * @param {number} leftOut
   */
  constructor(element, curve, leftOut) {
    this.element = element;
    /** @type {Map<number, number>} */
    this.values = new Map(curve);
    this.leftOut = leftOut;
    /** @type {number | null} */
    this.final = null;
    this.logarithmic = false;
    this.started = false;
  }

  async start() {
    this.note();
    if (this.values.size === 0 || this.started) return;
    this.started = true;
    const { redraw } = await makeChart(this.element, () => this.options());
    this.redraw = redraw;
    redraw();
  }

  /**
   * Another curve in place of this one.
   * @param {[number, number][]} curve
   * @param {number} leftOut
   */
  replace(curve, leftOut) {
    this.values = new Map(curve);
    this.leftOut = leftOut;
    this.changed();
  }

  /**
   * @param {number} sequence
   * @param {number} value
   */
  take(sequence, value) {
    this.values.set(sequence, value);
  }

  /** After the last of a frame's metrics. */
  changed() {
    if (this.values.size > MOST_POINTS) {
      const kept = [...this.values].filter((_, index) => index % 2 === 0 || index === this.values.size - 1);
      this.leftOut += this.values.size - kept.length;
      this.values = new Map(kept);
    }
    if (this.started) {
      this.note();
      this.redraw?.();
    } else this.start();
  }

  note() {
    const empty = this.values.size === 0;
    this.element.hidden = empty;
    const nothing = document.getElementById("no-metric");
    if (nothing) nothing.hidden = !empty;
    const note = document.getElementById("chart-note");
    if (note) note.textContent = this.leftOut ? `${this.leftOut.toLocaleString()} of the points are left out here.` : "";
    const values = [...this.values].sort((one, other) => one[0] - other[0]).map((point) => point[1]);
    // for those who do not see it
    this.element.setAttribute("aria-label", empty ? "No intermediate result" : `${values.length} intermediate results, from `
      + `${digits(Math.min(...values))} to ${digits(Math.max(...values))}, the latest ${digits(values[values.length - 1])}`);
    const choice = document.getElementById("log-choice");
    if (choice) choice.hidden = empty || [...this.values.values()].some((value) => value <= 0);
  }

  options() {
    const data = [...this.values].sort((one, other) => one[0] - other[0]);
    return {
      tooltip: {
        trigger: "axis", renderMode: "richText", confine: true, backgroundColor: colour("--raised"), borderColor: colour("--line"),
        textStyle: { color: colour("--ink"), fontSize: 12 },
        formatter: (/** @type {any[]} */ events) => `${events[0].value[0]}\n${digits(events[0].value[1])}`,
      },
      xAxis: axis({ type: "value", minInterval: 1, min: "dataMin", max: "dataMax", splitLine: { show: false } }),
      yAxis: axis({ type: this.logarithmic && data.every((point) => point[1] > 0) ? "log" : "value", scale: true, axisLabel: { color: colour("--quiet"), formatter: tick } }),
      series: [{
        type: "line", data, showSymbol: data.length < 60, symbolSize: 6, lineStyle: { width: 2, color: colour("--chart-point") },
        itemStyle: { color: colour("--chart-point") }, cursor: "default",
      }],
    };
  }
}
