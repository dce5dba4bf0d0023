/** Intermediate results of several trials over each other. */

import { axis, colour, makeChart, tooltip } from "../../charts/chart.js";
import { digits, duration, tick } from "../../lib/formats.js";
import { ResultColours } from "../result_colours.js";
import { worstFirst } from "./curve_order.js";

/** So many curves are told apart by their hue; more are coloured by how good they are. */
const HUES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d00", "#7a5fb0"];
const HUES_IN_THE_DARK = ["#56b4e9", "#f0803c", "#2fc79a", "#e79ac5", "#ffc04d", "#9fd3f5", "#d5b84a", "#b9a3ea"];
/** Most curves that a tooltip lists. */
const MOST_LISTED = 10;

/**
 * @typedef {{id: string, sequence_id: number, status: string, final: number | null, steps: number[], seconds: number[],
 *     values: number[], left_out: number}} Curve
 */

/**
 * The exponential moving average, without the pull of its beginning towards nothing.
 * @param {number[]} values
 * @param {number} weight  0 (as it is) to below 1
 */
export function smoothed(values, weight) {
  if (weight <= 0) return values;
  let average = 0;
  return values.map((value, index) => {
    average = average * weight + value * (1 - weight);
    return average / (1 - weight ** (index + 1));
  });
}

export class CurveChart {
  /**
   * @param {HTMLElement} element
   * @param {boolean} greaterIsBetter
   */
  constructor(element, greaterIsBetter) {
    this.element = element;
    this.greaterIsBetter = greaterIsBetter;
    /** @type {Curve[]} */
    this.curves = [];
    this.smoothing = 0;
    this.byTime = false;
    this.logX = false;
    this.logY = false;
    this.started = false;
    /** Id of the trial that is looked at. @type {string | null} */
    this.highlighted = null;
    /** Called when somebody points at a curve, or away. @type {((id: string | null) => void) | null} */
    this.pointed = null;
  }

  async draw() {
    if (this.started) {
      this.redraw?.();
      return;
    }
    this.started = true;
    const { chart, redraw } = await makeChart(this.element, () => this.options(), undefined, () => this.highlight(this.highlighted));
    this.chart = chart;
    this.redraw = redraw;
    chart.on("click", (/** @type {any} */ event) => {
      if (event.seriesId) location.assign(`/trials/${trialOf(event.seriesId)}/`);
    });
    chart.on("mouseover", (/** @type {any} */ event) => event.seriesId && this.pointed?.(trialOf(event.seriesId)));
    chart.on("mouseout", () => this.pointed?.(null));
    redraw();
  }

  /**
   * Let one trial's curve stand out, or none.
   * @param {string | null} id
   */
  highlight(id) {
    this.highlighted = id;
    if (!this.chart) return;
    this.chart.dispatchAction({ type: "downplay" });
    if (id !== null && this.curves.some((curve) => curve.id === id)) this.chart.dispatchAction({ type: "highlight", seriesId: id });
  }

  /** The curve's colour, one for each of `curves`. */
  colours() {
    const hues = matchMedia("(prefers-color-scheme: dark)").matches ? HUES_IN_THE_DARK : HUES;
    if (this.curves.length <= hues.length) return this.curves.map((_, index) => hues[index]);
    const values = this.curves.map((curve) => curve.final ?? curve.values[curve.values.length - 1]);
    const scale = new ResultColours(values, this.greaterIsBetter);
    const steps = scale.scale();
    return values.map((value) => steps.css(scale.part(value)));
  }

  get canBeLogarithmic() {
    return this.curves.length > 0 && this.curves.every((curve) => curve.values.every((value) => value > 0));
  }

  /**
   * The curves with their places, the best result last; those without one come first.
   * @returns {[Curve, number][]}
   */
  worstFirst() {
    return worstFirst(this.curves, this.greaterIsBetter);
  }

  /**
   * @param {Curve} curve
   * @param {number[]} values
   */
  points(curve, values) {
    const across = this.byTime ? curve.seconds : curve.steps;
    // nothing lies at zero of a logarithmic axis
    return values.map((value, index) => [across[index], value, curve.steps[index]]).filter(([x]) => !this.logX || x > 0);
  }

  options() {
    const colours = this.colours();
    const logY = this.logY && this.canBeLogarithmic;
    const many = this.curves.length > 12;
    const stopped = (/** @type {Curve} */ curve) => curve.status === "EARLY_STOPPED";
    const across = this.byTime ? duration : digits;
    const list = (/** @type {any[]} */ events) => {
      const sign = this.greaterIsBetter ? -1 : 1;
      const curves = new Map(this.curves.map((curve) => [curve.id, curve]));
      const rows = events.filter((event) => curves.has(event.seriesId)).sort((one, other) => sign * (one.value[1] - other.value[1]));
      if (rows.length === 0) return "";
      const lines = rows.slice(0, MOST_LISTED).map((event) => `${event.seriesId === this.highlighted ? "▸ " : ""}trial ${event.seriesName}  ${digits(event.value[1])}`);
      const left = rows.length - lines.length;
      return [this.byTime ? `after ${duration(rows[0].value[0])}` : `step ${rows[0].value[2]}`, ...lines, ...(left > 0 ? [`and ${left} more`] : [])].join("\n");
    };
    const line = (/** @type {Curve} */ curve, /** @type {number} */ index, /** @type {number[]} */ values, /** @type {any} */ more) => ({
      type: "line", name: String(curve.sequence_id), data: this.points(curve, values), showSymbol: curve.values.length === 1, symbolSize: 6,
      itemStyle: { color: colours[index] }, ...more,
    });
    return {
      tooltip: tooltip({ trigger: "axis", formatter: list, axisPointer: { type: "line", lineStyle: { color: colour("--line") } } }),
      grid: { left: 8, right: 24, top: 12, bottom: 22, containLabel: true },
      xAxis: axis({
        type: this.logX ? "log" : "value", min: this.logX ? undefined : "dataMin", max: "dataMax", minInterval: this.byTime ? undefined : 1,
        splitLine: { show: false }, name: this.byTime ? "since the trial's start" : "step", nameLocation: "middle", nameGap: 24,
        axisLabel: { color: colour("--quiet"), formatter: across, hideOverlap: true },
      }),
      yAxis: axis({ type: logY ? "log" : "value", scale: true, axisLabel: { color: colour("--quiet"), formatter: tick } }),
      series: [
        ...(this.smoothing > 0 ? this.curves.map((curve, index) => line(curve, index, curve.values, {
          id: `raw-${curve.id}`, silent: true, z: 1, tooltip: { show: false }, lineStyle: { color: colours[index], width: 1, opacity: 0.18 },
        })) : []),
        // the best one last, on top of all others
        ...this.worstFirst().map(([curve, index]) => line(curve, index, smoothed(curve.values, this.smoothing), {
          id: curve.id, triggerLineEvent: true, cursor: "pointer", z: 2,
          lineStyle: { color: colours[index], width: many ? 1.4 : 2, opacity: many ? 0.8 : 1, type: stopped(curve) ? "dashed" : "solid" },
          emphasis: { focus: "series", lineStyle: { width: 4, opacity: 1 } },
          blur: { lineStyle: { opacity: 0.12 } },
          markPoint: stopped(curve) ? { silent: true, symbol: "path://M0 0L4 4M4 0L0 4", symbolSize: 9, label: { show: false }, data: ends(this.points(curve, smoothed(curve.values, this.smoothing))), itemStyle: { color: "transparent", borderColor: colours[index], borderWidth: 2.5 } } : undefined,
        })),
      ],
    };
  }
}

/** @param {number[][]} points */
function ends(points) {
  const last = points[points.length - 1];
  return last ? [{ coord: [last[0], last[1]] }] : [];
}

/** @param {string} series  id of a curve, or of what lies behind it */
function trialOf(series) {
  return series.replace(/^raw-/, "");
}
