/** A chart whose points are trials: drawn when its data has come; a click on a point leads to the trial. */

import { makeChart } from "../../charts/chart.js";
import { rest } from "../../lib/rest.js";
import { showError } from "../../ui/action_error.js";

/**
 * What draws it says what is drawn, and what is made of the data.
 * @template {{id: string}} Point
 */
export class TrialPoints {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    /** By sequence. @type {Map<number, Point>} */
    this.points = new Map();
    /** Frames wait here until the answer that may not know of them. @type {any[] | null} */
    this.early = [];
    this.asked = 0;
    this.loading = false;
    /** Somebody wants an answer that is newer than the one on its way. */
    this.again = false;
    /** By series, in the order in which they were drawn last. @type {Record<string, Point[]>} */
    this.drawn = {};
    /** Draw again, soon; nothing before the first drawing. @type {(() => void) | undefined} */
    this.redraw = undefined;
    /** Of the library, when it is drawn. @type {any} */
    this.chart = undefined;
  }

  /** Where the points are asked for, below /api/v1/. @returns {string} */
  get path() {
    throw new Error("not told where the points come from");
  }

  /** Make points of an answer. @param {any} _columns */
  takeAll(_columns) {
    throw new Error("not told what the points are");
  }

  /** Make a point of a trial of a frame. @param {any} _trial */
  take(_trial) {
    throw new Error("not told what the points are");
  }

  /** Say what is not shown. */
  note() {}

  /**
   * Take all points anew.
   * @param {boolean} [another]  of another metric: what is on its way is not wanted any more
   */
  async load(another = false) {
    if (this.loading && !another) {
      this.again = true;
      return;
    }
    this.loading = true;
    this.again = false;
    const mine = ++this.asked;
    this.early = []; // what came before, the answer knows
    try {
      const columns = await rest("GET", this.path);
      if (mine !== this.asked) return;
      this.points.clear();
      this.takeAll(columns);
      const { early } = this;
      this.early = null;
      early.forEach((trial) => this.take(trial));
    } finally {
      if (mine === this.asked) this.loading = false;
    }
    this.note();
    this.redraw?.();
    if (this.again) await this.load();
  }

  /** As `load`; what goes wrong is said, until it goes well. The next frame asks again. */
  async reload() {
    await this.load().then(() => showError(null), showError);
  }

  /**
   * Trials of a frame.
   * @param {any[]} trials
   */
  heard(trials) {
    if (this.early) {
      this.early.push(...trials);
      if (!this.loading) this.reload();
      return;
    }
    trials.forEach((trial) => this.take(trial));
    this.note();
    this.redraw?.();
  }

  /** The chart, as ECharts wants to be told of it; notes in `drawn` what its series are made of. @returns {any} */
  options() {
    throw new Error("not told what to draw");
  }

  /** Fetch the points and draw. */
  async start() {
    const drawn = makeChart(this.element, () => this.options());
    await this.load().catch(showError);
    const { chart, redraw } = await drawn;
    this.redraw = redraw;
    this.chart = chart;
    chart.on("click", (/** @type {any} */ event) => {
      const point = this.pointOf(event);
      if (point) location.assign(`/trials/${point.id}/`);
    });
    redraw();
  }

  /**
   * The trial below the pointer.
   * @param {{seriesName?: string, dataIndex?: number}} event
   */
  pointOf(event) {
    return this.drawn[event.seriesName ?? ""]?.[event.dataIndex ?? -1];
  }
}
