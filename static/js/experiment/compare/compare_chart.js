/** Curves of a few trials in one chart. Eight colours, then the same ones dashed, then dotted: as in nniweb.css. */

import { axis, colour, makeChart } from "../../charts/chart.js";
import { digits, tick } from "../../lib/formats.js";

const LINES = ["solid", "dashed", "dotted"];
/** With more points than this a curve has no marks. */
const MOST_MARKS = 60;

/** @typedef {{id: string, sequence_id: number, steps: number[], values: number[], left_out: number, removed_at: string | null}} Series */

export class CompareChart {
  /**
   * @param {HTMLElement} element
   * @param {number} colours  how many there are
   */
  constructor(element, colours) {
    this.element = element;
    this.colours = colours;
    /** @type {Series[]} */
    this.series = [];
    this.logarithmic = false;
    /** @type {Promise<any> | null} */
    this.drawn = null;
  }

  /** @param {Series[]} series  in the order of their colours */
  take(series) {
    this.series = series;
    const empty = series.every((one) => one.steps.length === 0);
    this.element.hidden = empty;
    /** @type {HTMLElement} */ (document.getElementById("no-curves")).hidden = !empty;
    const leftOut = series.reduce((sum, one) => sum + one.left_out, 0);
    const note = document.getElementById("chart-note");
    const words = leftOut ? [`${leftOut.toLocaleString()} of the points are left out; no peak is.`] : [];
    const removed = series.filter((one) => one.removed_at && one.steps.length === 0).length;
    if (removed) words.push(`Intermediate results of ${removed} of these trials were removed by retention.`);
    if (note) note.textContent = words.join(" ");
    const choice = document.getElementById("log-choice");
    if (choice) choice.hidden = empty || series.some((one) => one.values.some((value) => value <= 0));
    if (choice?.hidden) this.logarithmic = false;
    if (empty) return;
    this.drawn ??= makeChart(this.element, () => this.options());
    this.drawn.then(({ redraw }) => redraw());
  }

  /** @param {boolean} is */
  setLogarithmic(is) {
    this.logarithmic = is;
    this.drawn?.then(({ redraw }) => redraw());
  }

  options() {
    return {
      tooltip: {
        trigger: "axis", renderMode: "richText", confine: true, backgroundColor: colour("--raised"), borderColor: colour("--line"),
        textStyle: { color: colour("--ink"), fontSize: 12 },
        formatter: (/** @type {any[]} */ found) => [`step ${found[0].value[0]}`,
          ...found.map((one) => `trial ${one.seriesName}: ${digits(one.value[1])}`)].join("\n"),
      },
      xAxis: axis({ type: "value", name: "step", nameLocation: "end", nameGap: 4, minInterval: 1, min: "dataMin", max: "dataMax", splitLine: { show: false } }),
      yAxis: axis({ type: this.logarithmic ? "log" : "value", scale: true, axisLabel: { color: colour("--quiet"), formatter: tick } }),
      grid: { left: 8, right: 36, top: 16, bottom: 8, containLabel: true },
      series: this.series.map((one, place) => {
        const paint = colour(`--curve-${place % this.colours}`);
        return {
          name: String(one.sequence_id), type: "line", data: one.steps.map((step, index) => [step, one.values[index]]),
          showSymbol: one.steps.length < MOST_MARKS, symbolSize: 4, cursor: "default", emphasis: { focus: "series" },
          lineStyle: { width: 2, color: paint, type: LINES[Math.floor(place / this.colours)] ?? "solid" }, itemStyle: { color: paint },
        };
      }),
    };
  }
}
