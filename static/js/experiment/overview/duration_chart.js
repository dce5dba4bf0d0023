/** How many trials took how long. */

import { axis, colour, makeChart } from "../../charts/chart.js";
import { isEnd } from "../../ui/status.js";
import { durationTick } from "../../lib/formats.js";

export class DurationChart {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    this.width = 1;
    /** @type {number[]} */
    this.counts = [];
    /** Seconds since the epoch: who ended later is not counted yet. */
    this.until = 0;
    /** Trials that were counted since the last answer. @type {Set<string>} */
    this.counted = new Set();
    this.started = false;
  }

  /**
   * What the server counted.
   * @param {{bar_width: number, counts: number[], until: number | null}} durations
   */
  take(durations) {
    this.width = durations.bar_width;
    this.counts = durations.counts;
    this.until = durations.until ?? 0;
    this.counted.clear();
    this.draw();
  }

  /**
   * Trials of a frame. False where one took longer than the bars reach: then the server counts anew.
   * @param {any[]} trials
   */
  heard(trials) {
    let fits = true;
    for (const trial of trials) {
      if (!isEnd(trial.status) || trial.duration === null || this.counted.has(trial.id) || Date.parse(trial.ended_at) / 1000 <= this.until) continue;
      const bar = Math.floor(trial.duration / this.width);
      this.counted.add(trial.id);
      if (bar >= Math.max(this.counts.length, 1)) fits = false;
      else this.counts[Math.max(0, bar)] = (this.counts[Math.max(0, bar)] ?? 0) + 1;
    }
    this.draw();
    return fits;
  }

  async draw() {
    const empty = this.counts.length === 0;
    this.element.hidden = empty;
    const nothing = document.getElementById("no-durations");
    if (nothing) nothing.hidden = !empty;
    if (empty) return;
    if (this.started) {
      this.redraw?.();
      return;
    }
    this.started = true;
    const { redraw } = await makeChart(this.element, () => this.options());
    this.redraw = redraw;
    redraw();
  }

  options() {
    const from = (/** @type {number} */ bar) => durationTick(bar * this.width, this.width);
    return {
      tooltip: {
        trigger: "axis", renderMode: "richText", confine: true, backgroundColor: colour("--raised"), borderColor: colour("--line"),
        textStyle: { color: colour("--ink"), fontSize: 12 },
        formatter: (/** @type {any[]} */ [bar]) => `${from(bar.dataIndex)} to ${from(bar.dataIndex + 1)}\n${bar.value === 1 ? "1 trial" : `${bar.value} trials`}`,
      },
      grid: { left: 8, right: 12, top: 12, bottom: 4, containLabel: true },
      xAxis: axis({ type: "category", data: this.counts.map((_, bar) => from(bar)), splitLine: { show: false } }),
      yAxis: axis({ type: "value", minInterval: 1 }),
      series: [{ type: "bar", data: this.counts, barCategoryGap: "8%", itemStyle: { color: colour("--chart-point") }, cursor: "default" }],
    };
  }
}
