/** What a trial uses of its machine over time: processor and GPUs in percent, memory in bytes. */

import { byteSize } from "../lib/byte_size.js";
import { clock } from "../lib/clock.js";
import { axis, colour, makeChart } from "./chart.js";
import { showText } from "../ui/status.js";

/** Points kept while readings come; beyond, every second one is dropped, as on the server. */
const MOST_READINGS = 400;
/** Milliseconds drawn before and after a reading that is the only one. */
const ALONE = 10_000;
/** Custom properties of the lines, in turn. */
const COLOURS = ["--curve-0", "--curve-1", "--curve-2", "--curve-3"];

/** @typedef {{at: string, cpu_percent: number | null, memory_bytes: number | null, gpus: {index: number, utilization: number | null, memory_bytes: number | null}[]}} Reading */

export class ResourceChart {
  /**
   * @param {Reading[]} readings
   * @param {() => string} nothing  what is said while there is no reading
   */
  constructor(readings, nothing) {
    this.readings = readings;
    this.nothing = nothing;
    this.started = false;
    /** @type {(() => void)[]} */
    this.redraws = [];
  }

  get lastAt() {
    return this.readings.length ? new Date(this.readings[this.readings.length - 1].at).getTime() : 0;
  }

  /** @param {Reading[]} readings */
  replace(readings) {
    this.readings = readings;
    this.show();
  }

  /** @param {Reading} reading */
  add(reading) {
    this.readings.push(reading);
    if (this.readings.length > MOST_READINGS) this.readings = this.readings.filter((_, index) => index % 2 === 0 || index === this.readings.length - 1);
    this.show();
  }

  async show() {
    const none = this.readings.length === 0;
    /** @type {HTMLElement} */ (document.getElementById("resource-charts")).hidden = none;
    const nothing = /** @type {HTMLElement} */ (document.getElementById("no-reading"));
    nothing.hidden = !none;
    if (none) showText(nothing, this.nothing());
    /** @type {HTMLElement} */ (document.getElementById("last-reading")).textContent = none ? "" : this.words();
    if (none) return;
    if (!this.started) {
      this.started = true;
      for (const [id, options] of /** @type {[string, () => any][]} */ ([["busy-chart", () => this.busy()], ["memory-chart", () => this.memory()]])) {
        const { redraw } = await makeChart(/** @type {HTMLElement} */ (document.getElementById(id)), options);
        this.redraws.push(redraw);
      }
    }
    this.redraws.forEach((redraw) => redraw());
  }

  /** The latest reading, for those who do not see charts, or want the number. */
  words() {
    const { cpu_percent: cpu, memory_bytes: memory, gpus } = this.readings[this.readings.length - 1];
    return [cpu === null ? "" : `processor ${Math.round(cpu)} %`, memory === null ? "" : `memory ${byteSize(memory)}`,
      ...gpus.map((gpu) => `GPU ${gpu.index} ${gpu.utilization === null ? "" : `${Math.round(gpu.utilization)} %, `}${byteSize(gpu.memory_bytes)}`)]
      .filter(Boolean).join(" · ");
  }

  /** Numbers of all GPUs that were read. */
  gpus() {
    return [...new Set(this.readings.flatMap((reading) => reading.gpus.map((gpu) => gpu.index)))].sort((one, other) => one - other);
  }

  busy() {
    return this.chart((value) => `${Math.round(value)} %`, [
      ["processor", (reading) => reading.cpu_percent],
      ...this.gpus().map((index) => line(`GPU ${index}`, (reading) => reading.gpus.find((gpu) => gpu.index === index)?.utilization))],
    { minInterval: 1 }); // the marks are whole percents
  }

  memory() {
    const most = Math.max(1, ...this.readings.flatMap((reading) => [reading.memory_bytes ?? 0, ...reading.gpus.map((gpu) => gpu.memory_bytes ?? 0)]));
    const interval = Math.max(1, 2 ** Math.ceil(Math.log2(most / 4))); // lines at whole numbers of the units of memory
    return this.chart(byteSize, [
      ["memory", (reading) => reading.memory_bytes],
      ...this.gpus().map((index) => line(`GPU ${index}`, (reading) => reading.gpus.find((gpu) => gpu.index === index)?.memory_bytes))],
    { interval, max: interval * Math.max(1, Math.ceil(most / interval)) });
  }

  /**
   * @param {(value: number) => string} words
   * @param {[string, (reading: Reading) => number | null | undefined][]} lines
   * @param {{interval?: number, max?: number, minInterval?: number}} scale
   */
  chart(words, lines, scale = {}) {
    const few = this.readings.length < 60;
    const times = this.readings.map((reading) => new Date(reading.at).getTime());
    // of a single moment the library would draw days
    const room = times[0] === times[times.length - 1] ? ALONE : 0;
    return {
      // on the right half of a label has room
      grid: { left: 8, right: 32, top: lines.length > 1 ? 30 : 12, bottom: 4, containLabel: true },
      legend: lines.length > 1 ? { top: 0, left: 0, itemHeight: 8, textStyle: { color: colour("--quiet") } } : undefined,
      tooltip: {
        trigger: "axis", renderMode: "richText", confine: true, backgroundColor: colour("--raised"), borderColor: colour("--line"),
        textStyle: { color: colour("--ink"), fontSize: 12 },
        valueFormatter: (/** @type {any} */ value) => (typeof value === "number" ? words(value) : "–"),
      },
      xAxis: axis({ type: "time", min: times[0] - room, max: times[times.length - 1] + room, splitLine: { show: false }, axisLabel: { color: colour("--quiet"), hideOverlap: true, formatter: (/** @type {number} */ at) => clock(at, true) } }),
      yAxis: axis({ type: "value", min: 0, splitNumber: 3, ...scale, axisLabel: { color: colour("--quiet"), formatter: words } }),
      series: lines.map(([name, value], index) => ({
        name, type: "line", showSymbol: few, symbolSize: room ? 8 : 4, symbol: index ? "rect" : "circle", cursor: "default", connectNulls: true,
        data: this.readings.map((reading, place) => [times[place], value(reading) ?? null]),
        lineStyle: { width: 2, color: colour(COLOURS[index % COLOURS.length]), type: index >= COLOURS.length ? "dashed" : "solid" },
        itemStyle: { color: colour(COLOURS[index % COLOURS.length]) },
      })),
    };
  }
}

/**
 * @param {string} name
 * @param {(reading: Reading) => number | null | undefined} value
 * @returns {[string, (reading: Reading) => number | null | undefined]}
 */
function line(name, value) {
  return [name, value];
}
