/**
 * Where the values of one parameter (or of the result) lie on an axis from 0 to 1: evenly, by their logarithm, or one
 * place for each option; and a place below the axis for trials that do not use the parameter.
 */

import { digits, parameter } from "../../lib/formats.js";
import { partOf } from "../../lib/part_of.js";

/** The place of "not used". */
export const NOT_USED = -0.13;

export class AxisScale {
  /**
   * @param {{name: string, kind: string, logarithmic: boolean, whole: boolean, low: number | null, high: number | null,
   *     options: any[], values: (number | null)[]}} column
   */
  constructor(column) {
    this.name = column.name;
    this.options = column.options;
    this.isCategory = column.kind === "category";
    this.whole = column.whole;
    const low = this.isCategory ? 0 : column.low ?? 0;
    const high = this.isCategory ? column.options.length - 1 : column.high ?? 1;
    this.logarithmic = column.logarithmic && low > 0;
    // what never varies stands in the middle
    const room = Math.abs(low) < 1e6 ? 0.5 : Math.abs(low) / 10; // to a great number 0.5 adds nothing
    const around = this.logarithmic ? [low / 2 || low, high * 2] : [low - room, high + room];
    [this.low, this.high] = low < high ? [low, high] : around.map((end) => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, end)));
    this.hasUnused = column.values.some((value) => value === null);
  }

  /** The least place that is drawn. */
  get bottom() {
    return this.hasUnused ? NOT_USED : 0;
  }

  /** @param {number} value */
  bent(value) {
    return this.logarithmic ? Math.log(Math.max(value, this.low * 1e-6)) : value;
  }

  /** @param {number | null | undefined} value */
  place(value) {
    if (value === null || value === undefined) return NOT_USED;
    return partOf(this.bent(value), this.bent(this.low), this.bent(this.high));
  }

  /**
   * The value at a place; null well below the axis.
   * @param {number} place
   */
  valueAt(place) {
    if (place < NOT_USED / 2) return null;
    const part = Math.max(0, Math.min(1, place));
    const bent = this.bent(this.low) * (1 - part) + this.bent(this.high) * part;
    return this.logarithmic ? Math.exp(bent) : bent;
  }

  /** @param {number | null | undefined} value */
  label(value) {
    if (value === null || value === undefined) return "not used";
    return this.isCategory ? parameter(this.options[Math.round(value)]) : digits(value);
  }

  /**
   * About so many ticks: round numbers, powers of ten, or options.
   * @param {number} [most]
   * @returns {number[]} values, rising
   */
  ticks(most = 6) {
    if (this.isCategory) {
      const step = Math.ceil(this.options.length / Math.max(most, 12));
      return this.options.map((_, index) => index).filter((index) => index % step === 0);
    }
    if (this.logarithmic) {
      const first = Math.ceil(Math.log10(this.low) - 1e-9);
      const last = Math.floor(Math.log10(this.high) + 1e-9);
      const decades = last - first + 1;
      if (decades >= 2) {
        const step = Math.ceil(decades / most);
        return Array.from({ length: Math.floor((decades - 1) / step) + 1 }, (_, index) => 10 ** (first + index * step));
      }
      return [1, 2, 5].flatMap((part) => [first - 1, first, last].map((power) => part * 10 ** power))
        .filter((tick, index, all) => tick >= this.low && tick <= this.high && all.indexOf(tick) === index)
        .sort((one, other) => one - other);
    }
    const raw = this.high / most - this.low / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = Math.max([1, 2, 5, 10].map((part) => part * power).find((part) => part >= raw * 0.999) ?? raw, this.whole ? 1 : 0);
    if (!(step > 0)) return []; // the ends are the two least numbers there are
    const [first, last] = [Math.ceil(this.low / step - 1e-9), Math.floor(this.high / step + 1e-9)];
    // counted from the first one: beyond 2 ** 53 a number stays what it is when 1 is added
    return [...new Set(Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12))))];
  }

  /**
   * Ticks as places with their labels, for an axis of ECharts from `bottom` to 1.
   * @param {number} [most]
   */
  axisMarks(most) {
    const marks = new Map(this.ticks(most).map((tick) => [this.place(tick), this.label(tick)]));
    if (this.hasUnused) marks.set(NOT_USED, "not used");
    // ECharts makes room for labels of its own ticks, which are not shown: the longest one is what has to fit
    const longest = [...marks.values()].reduce((one, other) => (other.length > one.length ? other : one), "");
    const near = (/** @type {number} */ place) => {
      for (const [mark, label] of marks) if (Math.abs(mark - place) < 1e-6) return label;
      return longest;
    };
    const places = [...marks.keys()].sort((one, other) => one - other);
    return { places, label: near };
  }
}
