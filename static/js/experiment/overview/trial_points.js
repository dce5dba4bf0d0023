/** A chart whose points are trials: drawn when its data has come; a click on a point leads to the trial. */

import { makeChart } from "../../charts/chart.js";

/**
 * What draws it says what is drawn, and where the data comes from.
 * @template {{id: string}} Point
 */
export class TrialPoints {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    /** By series, in the order in which they were drawn last. @type {Record<string, Point[]>} */
    this.drawn = {};
    /** Draw again, soon; nothing before the first drawing. @type {(() => void) | undefined} */
    this.redraw = undefined;
    /** Of the library, when it is drawn. @type {any} */
    this.chart = undefined;
  }

  /** Take all points anew. */
  async load() {
    throw new Error("not told where the points come from");
  }

  /** The chart, as ECharts wants to be told of it; notes in `drawn` what its series are made of. @returns {any} */
  options() {
    throw new Error("not told what to draw");
  }

  /** Fetch the points and draw. */
  async start() {
    const drawn = makeChart(this.element, () => this.options());
    await this.load();
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
