/** Trials with a result and their parameters, and which of them are chosen: by "top x %" and by ranges on axes. */

import { rest } from "../../lib/rest.js";
import { addressState, writeAddress } from "../address_state.js";
import { AxisScale } from "./axis_scale.js";
import { ResultColours } from "../result_colours.js";

/** The result's own axis, which no parameter is called. */
export const RESULT = "@result";
/** In an address and in a form: below the axis, where a parameter is not used. */
export const UNUSED = "none";

/** @typedef {{from: number | null, to: number | null}} Range  values, or indices of options; null: "not used" */
/** @typedef {{id: string, sequence: number, value: number, rank: number, at: number}} Trial */

export class ParameterData {
  /**
   * @param {{id: string, optimize_mode: string}} experiment
   * @param {import("./compared_metric.js").ComparedMetric} metric
   */
  constructor(experiment, metric) {
    this.experiment = experiment;
    this.metric = metric;
    this.mode = experiment.optimize_mode;
    this.asked = 0;
    this.revision = 0;
    /** @type {any[]} */
    this.columns = [];
    /** @type {Trial[]} */
    this.trials = [];
    this.total = 0;
    this.leftOut = 0;
    /** @type {Map<string, AxisScale>} */
    this.scales = new Map();
    const address = addressState();
    this.top = Number(address.get("top")) || 100;
    this.logarithmic = address.get("log") === "1";
    /** @type {Map<string, Range>} */
    this.ranges = new Map();
    for (const text of address.getAll("range")) {
      const found = /^(.*):([^:~]*)~([^:~]*)$/s.exec(text);
      if (!found) continue;
      const [from, to] = [found[2], found[3]].map((end) => (end === UNUSED ? null : Number(end)));
      if (!Number.isNaN(from) && !Number.isNaN(to)) this.ranges.set(found[1], { from, to });
    }
    this.colours = new ResultColours([], true);
  }

  /** Take everything anew. False where another metric was chosen meanwhile: then nothing is taken. */
  async load() {
    const mine = ++this.asked;
    const found = await rest("GET", `experiments/${this.experiment.id}/parameters/${this.metric.query}`);
    if (mine !== this.asked) return false;
    this.mode = found.optimize_mode;
    this.revision = found.revision;
    this.columns = found.columns;
    this.total = found.trials;
    this.leftOut = found.left_out;
    this.trials = found.id.map((/** @type {string} */ id, /** @type {number} */ at) => ({
      id, sequence: found.sequence_id[at], value: found.value[at], rank: found.rank[at], at,
    }));
    this.rescale();
    return true;
  }

  /** After new values, or another kind of axis for the result. */
  rescale() {
    const values = this.trials.map((trial) => trial.value);
    const low = Math.min(...values);
    this.canBeLogarithmic = values.length > 0 && low > 0;
    this.result = {
      name: RESULT, kind: "number", logarithmic: this.logarithmic && this.canBeLogarithmic, whole: false, options: [],
      low: values.length ? low : null, high: values.length ? Math.max(...values) : null, values, choice: null, option: null,
    };
    this.scales = new Map([...this.columns, this.result].map((column) => [column.name, new AxisScale(column)]));
    this.colours = new ResultColours(values.map((value) => this.bent(value)), this.mode === "maximize");
  }

  /**
   * The result as it is coloured.
   * @param {number} value
   */
  bent(value) {
    return this.result?.logarithmic ? Math.log(value) : value;
  }

  /** @param {Trial} trial */
  goodness(trial) {
    return this.colours.part(this.bent(trial.value));
  }

  /** @param {string} name */
  scale(name) {
    return /** @type {AxisScale} */ (this.scales.get(name));
  }

  /**
   * A parameter's name for people: "kernel (Conv)" instead of "layer.Conv.kernel".
   * @param {string} name
   */
  title(name) {
    if (name === RESULT) return this.metric.title;
    const column = this.column(name);
    const choice = column?.choice && this.column(column.choice);
    if (!choice) return name;
    const option = choice.options[column.option];
    const text = typeof option === "string" ? option : JSON.stringify(option);
    return `${name.slice(`${choice.name}.${text}.`.length)} (${text})`;
  }

  /** The heading of a column of results. */
  get resultHeading() {
    return this.metric.title === "result" ? "Result" : this.metric.title;
  }

  /** @param {string} name */
  column(name) {
    return name === RESULT ? this.result : this.columns.find((column) => column.name === name);
  }

  /** How many of the best trials are all drawn. */
  get bestDrawn() {
    const ranks = new Set(this.trials.map((trial) => trial.rank));
    let count = 0;
    while (ranks.has(count)) count += 1;
    return count;
  }

  /** How many trials are the top that is chosen. */
  get topSize() {
    return Math.max(1, Math.ceil((this.total * this.top) / 100));
  }

  /** The trials that are chosen, the best first. */
  chosen() {
    const size = this.topSize;
    const tests = [...this.ranges].filter(([name]) => this.scales.has(name)).map(([name, range]) => {
      const scale = this.scale(name);
      const [from, to] = [scale.place(range.from), scale.place(range.to)];
      const slack = 1e-4; // an address has four digits
      const { values } = /** @type {any} */ (this.column(name));
      return (/** @type {Trial} */ trial) => {
        const place = scale.place(values[trial.at]);
        return place >= from - slack && place <= to + slack;
      };
    });
    return this.trials.filter((trial) => trial.rank < size && tests.every((test) => test(trial)))
      .sort((one, other) => one.rank - other.rank);
  }

  /**
   * @param {string} name
   * @param {Range | null} range
   */
  setRange(name, range) {
    if (range) this.ranges.set(name, range);
    else this.ranges.delete(name);
  }

  /** Write the choices into the address. */
  remember() {
    const end = (/** @type {number | null} */ value) => (value === null ? UNUSED : String(Number(value.toPrecision(4))));
    writeAddress({
      top: this.top === 100 ? null : String(this.top),
      log: this.logarithmic ? "1" : null,
      range: [...this.ranges].map(([name, { from, to }]) => `${name}:${end(from)}~${end(to)}`),
    });
  }
}
