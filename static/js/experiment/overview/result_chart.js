/** The chart of an experiment's results: a point for every trial, the best so far as a line, failures on the axis. */

import { axis, colour, statusColour } from "../../charts/chart.js";
import { showError } from "../../ui/action_error.js";
import { isEnd } from "../../ui/status.js";
import { DIGITS_OF_ERROR, statusWord, tick, wholeTick, withDigits } from "../../lib/formats.js";
import { MetricChoice } from "../metric_choice.js";
import { PointedAt } from "./pointed_at.js";
import { TrialPoints } from "./trial_points.js";

/** With more points than this the server is asked to thin them again. */
const MOST_POINTS = 5_000;
/** From so many points on they are drawn as one shape, smaller. */
const MANY = 500;
/** Significant digits of the result that is pointed at. */
const POINTED_AT = 6;

/** @typedef {{id: string, sequence: number, status: string, value: number | null, at: number | null, final: boolean, infeasible: boolean, error: number | null}} Point */

/**
 * The name under which a trial stands in the legend.
 * @param {Point} point
 * @param {string} partial  of those that go on; with replicates of all that have no result
 */
function seriesOf({ value, final, infeasible, status }, partial) {
  if (value === null) return status === "FAILED" ? "failed" : "no result";
  if (infeasible) return "infeasible";
  if (final || !isEnd(status) || partial !== "running") return final ? "result" : partial;
  if (status === "SUCCEEDED") return "no final result";
  return status === "EARLY_STOPPED" ? "stopped early" : "stopped";
}

/** @extends {TrialPoints<Point>} */
export class ResultChart extends TrialPoints {
  /**
   * @param {HTMLElement} element
   * @param {{id: string, optimize_mode: string, replicates: number}} experiment
   */
  constructor(element, experiment) {
    super(element);
    this.experiment = experiment;
    this.metric = new MetricChoice(() => this.load(true).catch(showError));
    /** maximize, minimize, or null where there is no best. @type {string | null} */
    this.mode = experiment.optimize_mode;
    this.leftOut = 0;
    this.byTime = false;
    this.logarithmic = false;
    this.canBeLogarithmic = false;
    /** The part that is shown, in percent of the horizontal axis. */
    this.zoom = { start: 0, end: 100 };
    this.pointedAt = new PointedAt(({ seriesIndex, dataIndex }) => this.chart?.dispatchAction({ type: "showTip", seriesIndex, dataIndex }));
    /** Called with each answer: what else is drawn of it. @type {((columns: any) => void) | null} */
    this.tookAll = null;
  }

  /** Fetch the points and draw; then it can be zoomed, and says what parameters a point has. */
  async start() {
    await super.start();
    this.chart.on("datazoom", () => this.show(this.chart.getOption().dataZoom[0]));
    document.getElementById("whole-chart")?.addEventListener("click", () => this.chart.dispatchAction({ type: "dataZoom", start: 0, end: 100 }));
    this.chart.on("mouseover", (/** @type {any} */ event) => {
      const point = this.pointOf(event);
      if (point) this.pointedAt.at(point.id, event);
    });
    this.chart.on("mouseout", () => this.pointedAt.away());
  }

  /**
   * From now on this part is shown, in percent of the horizontal axis; without an argument the whole.
   * @param {{start: number, end: number}} [part]
   */
  show({ start, end } = { start: 0, end: 100 }) {
    this.zoom = { start, end };
    const whole = document.getElementById("whole-chart");
    if (whole) whole.hidden = start <= 0 && end >= 100;
  }

  get path() {
    const { query } = this.metric;
    return `experiments/${this.experiment.id}/chart/${query && `?${query}`}`;
  }

  /** @param {any} columns */
  takeAll(columns) {
    this.mode = columns.optimize_mode;
    columns.sequence_id.forEach((/** @type {number} */ sequence, /** @type {number} */ index) => {
      this.points.set(sequence, {
        id: columns.id[index], sequence, status: columns.statuses[columns.status[index]], value: columns.value[index],
        at: columns.at[index], final: columns.final[index] === 1,
        infeasible: columns.infeasible[index] === 1, error: columns.standard_error[index],
      });
    });
    this.leftOut = columns.left_out;
    this.tookAll?.(columns);
  }

  /**
   * Trials of a frame.
   * @param {any[]} trials
   */
  heard(trials) {
    this.metric.heard(trials);
    super.heard(trials);
    if (this.points.size > MOST_POINTS && !this.loading) this.reload();
  }

  /** @param {any} trial */
  take(trial) {
    if (trial.proposal && !this.metric.name) {
      this.takeProposal(trial);
      return;
    }
    const [result, latest] = this.metric.numbersOf(trial);
    const isResult = result !== null && ["SUCCEEDED", "EARLY_STOPPED"].includes(trial.status);
    const infeasible = isResult && trial.feasible === false;
    const final = isResult && !infeasible;
    const value = ["FAILED", "WAITING"].includes(trial.status) ? null : result ?? latest;
    if (value === null && (this.metric.name || !isEnd(trial.status))) return;
    const at = trial.ended_at ?? trial.started_at;
    this.points.set(trial.sequence_id, {
      id: trial.id, sequence: trial.sequence_id, status: trial.status, value, final, infeasible,
      at: at ? Date.parse(at) / 1000 : null, error: null,
    });
  }

  /** A proposal is one point, at the number of its first trial. @param {any} trial */
  takeProposal(trial) {
    const { first, state, mean: value, standard_error: error } = trial.proposal;
    const known = this.points.get(first);
    if ((value === null && state === "open") || (!known && trial.sequence_id !== first)) return;
    const at = trial.sequence_id === first ? trial.ended_at ?? trial.started_at : null;
    this.points.set(first, {
      id: known?.id ?? trial.id, sequence: first, status: trial.sequence_id === first ? trial.status : known?.status ?? trial.status,
      value, final: state === "complete" && value !== null, infeasible: false, at: at ? Date.parse(at) / 1000 : known?.at ?? null, error,
    });
  }

  /** Say what is not shown, and offer what is possible. */
  note() {
    const words = [];
    if (this.leftOut) words.push(`${this.leftOut.toLocaleString()} of ${(this.leftOut + this.points.size).toLocaleString()} trials are left out here${this.mode === null ? "" : "; the line of the best is exact"}.`);
    const note = document.getElementById("chart-note");
    if (note) note.textContent = words.join(" ");
    const values = [...this.points.values()].filter((point) => point.value !== null);
    this.canBeLogarithmic = values.length > 0 && values.every((point) => /** @type {number} */ (point.value) > 0);
    const choice = document.getElementById("log-choice");
    if (choice) choice.hidden = !this.canBeLogarithmic;
  }

  /** The best so far at each point that counts, in the order of the horizontal axis. */
  best() {
    if (this.mode === null) return [];
    const sign = this.mode === "maximize" ? 1 : -1;
    /** @type {[number, number][]} */
    const line = [];
    let best = -Infinity;
    let last = null;
    for (const point of this.ordered()) {
      last = point;
      if (!point.final || point.value === null || sign * point.value <= best) continue;
      best = sign * point.value;
      line.push([this.x(point), point.value]);
    }
    if (last && line.length) line.push([this.x(last), line[line.length - 1][1]]);
    return line;
  }

  ordered() {
    const points = [...this.points.values()].filter((point) => !this.byTime || point.at !== null);
    return points.sort((one, other) => this.x(one) - this.x(other));
  }

  /** @param {Point} point */
  x(point) {
    return this.byTime ? (point.at ?? 0) * 1000 : point.sequence;
  }

  options() {
    const partial = this.experiment.replicates > 1 && !this.metric.name ? "not run in full" : "running";
    /** @type {Record<string, Point[]>} */
    const drawn = { result: [], infeasible: [], [partial]: [], "no final result": [], "stopped early": [], stopped: [], failed: [], "no result": [] };
    for (const point of this.ordered()) drawn[seriesOf(point, partial)].push(point);
    this.drawn = drawn;
    // bare numbers, and thousands of points as one shape: a frame must not hold up the page
    const places = (/** @type {string} */ name) => drawn[name].map((point) => [this.x(point), point.value ?? 0]);
    // from one end of each bar to the other, and then a gap
    const bars = [...drawn.result, ...drawn[partial]].flatMap((point) => (point.error === null || point.value === null ? [] : [
      [this.x(point), point.value - point.error], [this.x(point), point.value + point.error], [this.x(point), null]]));
    const many = { large: true, largeThreshold: MANY, cursor: "pointer" };
    const tooltip = (/** @type {any} */ event) => {
      const point = this.pointOf(event);
      if (!point) return "";
      const spread = point.error === null ? "" : ` ± ${withDigits(point.error, DIGITS_OF_ERROR)}`;
      const isWhole = point.final || point.infeasible || partial !== "running" && point.status === "SUCCEEDED";
      const word = point.infeasible ? "infeasible, " : isWhole ? "" : isEnd(point.status) ? "last value " : "so far ";
      const value = point.value === null ? "no result" : `${word}${withDigits(point.value, POINTED_AT)}${spread}`;
      return [`trial ${point.sequence}`, value, statusWord(point.status), ...this.pointedAt.of(point.id)].join("\n");
    };
    const horizontal = this.byTime
      ? { type: "time" }
      : { type: "value", name: "trial", nameLocation: "end", nameGap: 4, minInterval: 1, min: 0, axisLabel: { color: colour("--quiet"), hideOverlap: true, formatter: wholeTick } };
    const hasValue = this.ordered().some((point) => point.value !== null);
    return {
      // empty axes alone look as if the chart were still loading
      title: { show: !hasValue, text: "No result yet.", left: "center", top: "middle", textStyle: { color: colour("--quiet"), fontSize: 14, fontWeight: "normal" } },
      tooltip: {
        trigger: "item", renderMode: "richText", confine: true, formatter: tooltip,
        backgroundColor: colour("--raised"), borderColor: colour("--line"), textStyle: { color: colour("--ink"), fontSize: 12 },
      },
      legend: {
        top: 0, right: 8, itemHeight: 8, itemWidth: 14, textStyle: { color: colour("--quiet") }, inactiveColor: colour("--line"),
        data: ["result", "infeasible", partial, "no final result", "stopped early", "stopped", "best so far", "failed", "no result"].filter(
          (name) => name === "best so far" ? this.mode !== null : name === "result" || drawn[name].length),
      },
      grid: { left: 8, right: 28, top: 32, bottom: 8, containLabel: true },
      // the wheel alone scrolls the page
      dataZoom: [{ type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", preventDefaultMouseMove: false, ...this.zoom }],
      xAxis: axis({ ...horizontal, splitLine: { show: false } }),
      yAxis: [
        axis({ type: this.logarithmic && this.canBeLogarithmic ? "log" : "value", scale: true, axisLabel: { color: colour("--quiet"), formatter: tick } }),
        // the marks' own: they sit on the axis whatever the values are
        { type: "value", min: 0, max: 1, show: false },
      ],
      series: [
        { name: "result", type: "scatter", data: places("result"), symbolSize: drawn.result.length > MANY ? 4 : 7, itemStyle: { color: statusColour("SUCCEEDED"), opacity: 0.75 }, ...many },
        ...(bars.length ? [{ name: "standard error", type: "line", data: bars, showSymbol: false, silent: true, connectNulls: false, lineStyle: { color: statusColour("SUCCEEDED"), width: 1, opacity: 0.6 } }] : []),
        { name: "infeasible", type: "scatter", data: places("infeasible"), symbol: "diamond", symbolSize: 8, itemStyle: { color: "transparent", borderColor: colour("--chart-infeasible"), borderWidth: 1.5 }, cursor: "pointer" },
        { name: partial, type: "scatter", data: places(partial), symbol: "circle", symbolSize: 6, itemStyle: { color: "transparent", borderColor: statusColour("RUNNING"), borderWidth: 1.5 }, cursor: "pointer" },
        ...[["no final result", "SUCCEEDED"], ["stopped early", "EARLY_STOPPED"], ["stopped", "USER_CANCELED"]].map(([name, status]) => (
          { name, type: "scatter", data: places(name), symbol: "diamond", symbolSize: 8, itemStyle: { color: "transparent", borderColor: statusColour(status), borderWidth: 1.5 }, cursor: "pointer" })),
        { name: "best so far", type: "line", step: "end", data: this.best(), showSymbol: false, silent: true, lineStyle: { color: colour("--chart-best"), width: 2 }, itemStyle: { color: colour("--chart-best") } },
        ...[["failed", "FAILED"], ["no result", "USER_CANCELED"]].map(([name, status]) => (
          { name, type: "scatter", yAxisIndex: 1, data: places(name), symbol: "path://M0 0L4 4M4 0L0 4", symbolSize: 8, itemStyle: { color: "transparent", borderColor: statusColour(status), borderWidth: 2 }, cursor: "pointer" })),
      ],
    };
  }
}
