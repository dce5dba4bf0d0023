/** Parallel coordinates: a line for each trial, across an axis for each parameter and one for the result. */

import { colour, makeChart, tooltip, WHOLE_LIBRARY } from "../../charts/chart.js";
import { digits } from "../../lib/formats.js";
import { AxisHeads } from "./axis_heads.js";
import { RESULT } from "./parameter_data.js";

/** Pixels that an axis needs; of more axes than fit some are seen, and the frame scrolls through them. */
const AXIS_WIDTH = 98;
/** Pixels before the first axis and behind the last one, which is the result's and always seen. */
const LEFT = 60;
const RIGHT = 64;
/** Ranges that differ by less than this part of the axis are the same. */
const SAME = 1e-3;

export class ParallelChart {
  /**
   * @param {HTMLElement} element
   * @param {import("./parameter_data.js").ParameterData} data
   * @param {() => void} changed  somebody chose a range
   * @param {(names: string[]) => void} arranged  somebody wants these axes, in this order
   */
  constructor(element, data, changed, arranged) {
    this.element = element;
    this.data = data;
    this.changed = changed;
    this.arranged = arranged;
    /** What scrolls, and what is as wide as all axes would be. */
    this.frame = /** @type {HTMLElement} */ (element.closest(".axis-frame"));
    this.run = /** @type {HTMLElement} */ (this.frame.querySelector(".axis-run"));
    this.pane = /** @type {HTMLElement} */ (this.frame.querySelector(".axis-pane"));
    /** Names of the axes there are, but the result's. @type {string[]} */
    this.names = [];
    /** Of these the first that is seen. */
    this.first = 0;
    /** Names of the axes that are seen. @type {string[]} */
    this.shown = [];
    this.heads = new AxisHeads(/** @type {HTMLElement} */ (document.getElementById("axis-heads")), {
      title: (name) => data.title(name), result: () => data.title(RESULT),
      move: (name, to) => this.move(name, to),
      remove: (name) => this.names.length > 1 && arranged(this.names.filter((one) => one !== name)),
      scroll: (by) => this.frame.scrollBy({ left: by }),
    });
    this.frame.addEventListener("scroll", () => this.scrolled());
    new ResizeObserver(() => this.lay() && this.redraw?.()).observe(this.frame);
    this.started = false;
    this.held = false;
    this.waits = false;
  }

  /**
   * @param {string[]} names  of the parameters that have an axis
   */
  async draw(names) {
    this.names = names;
    this.lay();
    if (this.started) {
      // not under somebody's hand who draws a range
      if (this.held) this.waits = true;
      else this.redraw?.();
      return;
    }
    this.started = true;
    const { chart, redraw } = await makeChart(this.element, () => this.options(), WHOLE_LIBRARY,
      (drawn) => this.showRanges(drawn));
    this.redraw = redraw;
    chart.on("click", (/** @type {any} */ event) => {
      if (event.data?.trial) location.assign(`/trials/${event.data.trial.id}/`);
    });
    chart.on("rendered", () => colourRanges(chart));
    chart.on("axisareaselected", () => this.takeRanges(chart));
    this.element.addEventListener("pointerdown", () => {
      this.held = true;
    });
    addEventListener("pointerup", () => {
      this.held = false;
      if (!this.waits) return;
      this.waits = false;
      redraw();
    });
  }

  /**
   * Which axes are seen, and where. False where the frame has no room yet.
   */
  lay() {
    const width = this.frame.clientWidth;
    if (width === 0) return false;
    const fit = Math.max(1, Math.floor((width - LEFT - RIGHT) / AXIS_WIDTH));
    const seen = Math.min(this.names.length, fit);
    const step = (width - LEFT - RIGHT) / Math.max(1, seen);
    const beyond = this.names.length - seen;
    this.pane.style.width = `${width}px`;
    this.run.style.width = `${width + beyond * step}px`;
    this.step = step;
    this.first = Math.min(beyond, Math.round(this.frame.scrollLeft / step));
    this.shown = [...this.names.slice(this.first, this.first + seen), RESULT];
    this.heads.draw({ left: LEFT, step, first: this.first, names: this.shown.slice(0, -1) }, this.names);
    const note = /** @type {HTMLElement} */ (document.getElementById("axes-seen"));
    note.textContent = beyond ? `Axes ${this.first + 1} to ${this.first + seen} of ${this.names.length}; scroll to see the others.` : "";
    return true;
  }

  scrolled() {
    if (!this.step || this.first === Math.round(this.frame.scrollLeft / this.step)) return;
    this.lay();
    this.redraw?.();
  }

  /**
   * @param {string} name
   * @param {number} wanted  its place among the axes
   */
  move(name, wanted) {
    const others = this.names.filter((one) => one !== name);
    const to = Math.max(0, Math.min(others.length, wanted));
    if (this.names.indexOf(name) === to) return;
    const seen = this.shown.length - 1;
    if (this.step && to < this.first) this.frame.scrollLeft = to * this.step;
    else if (this.step && to >= this.first + seen) this.frame.scrollLeft = (to - seen + 1) * this.step;
    this.arranged([...others.slice(0, to), name, ...others.slice(to)]);
  }

  /** @param {any} chart */
  showRanges(chart) {
    this.showing = true;
    this.shown.forEach((name, parallelAxisIndex) => {
      const range = this.data.ranges.get(name);
      if (!range) return;
      const scale = this.data.scale(name);
      const [from, to] = [scale.place(range.from), scale.place(range.to)];
      const room = scale.isCategory || from === to ? 0.02 : 0;
      chart.dispatchAction({ type: "axisAreaSelect", parallelAxisId: `axis-${parallelAxisIndex}`, intervals: [[from - room, to + room]] });
    });
    this.showing = false;
  }

  /** @param {any} chart */
  takeRanges(chart) {
    if (this.showing) return;
    let differs = false;
    this.shown.forEach((name, index) => {
      const scale = this.data.scale(name);
      const [interval] = chart.getModel().getComponent("parallelAxis", index).activeIntervals;
      const before = this.data.ranges.get(name);
      if (!interval) {
        differs ||= before !== undefined;
        this.data.setRange(name, null);
        return;
      }
      const known = before && [scale.place(before.from), scale.place(before.to)];
      const room = scale.isCategory || (before && before.from === before.to) ? 0.02 : 0;
      if (known && Math.abs(known[0] - room - interval[0]) < SAME && Math.abs(known[1] + room - interval[1]) < SAME) return;
      differs = true;
      this.data.setRange(name, this.rangeOf(scale, interval));
    });
    if (differs) this.changed();
  }

  /**
   * @param {import("./axis_scale.js").AxisScale} scale
   * @param {[number, number]} interval  of places
   */
  rangeOf(scale, [from, to]) {
    if (!scale.isCategory) return { from: scale.valueAt(from), to: scale.valueAt(to) };
    const inside = [...(scale.hasUnused ? [null] : []), ...scale.options.keys()].filter((index) => {
      const place = scale.place(index);
      return place >= from && place <= to;
    });
    // a range between two options holds no trial; it is the nearest one that was meant
    if (inside.length === 0) inside.push(Math.round(scale.valueAt((from + to) / 2) ?? 0));
    return { from: inside[0] ?? null, to: inside[inside.length - 1] ?? null };
  }

  options() {
    const { data } = this;
    if (this.shown.some((name) => !data.scales.has(name))) return {}; // the search space is another one: drawn again at once
    const scale = data.colours.scale();
    const chosen = data.chosen();
    const isChosen = new Set(chosen.map((trial) => trial.id));
    const columns = this.shown.map((name) => data.column(name));
    const scales = this.shown.map((name) => data.scale(name));
    const line = (/** @type {import("./parameter_data.js").Trial} */ trial) => scales.map(
      (axis, index) => axis.place(columns[index].values[trial.at]));
    const many = chosen.length > 300;
    return {
      tooltip: tooltip({
        trigger: "item", formatter: (/** @type {any} */ event) => {
          const trial = event.data?.trial;
          if (!trial) return "";
          const values = columns.slice(0, -1).map((column, index) => (column.values[trial.at] === null ? "" : `${data.title(column.name)}  ${scales[index].label(column.values[trial.at])}`));
          return [`trial ${trial.sequence}, ${data.title(RESULT)} ${digits(trial.value)}`, ...values.filter(Boolean)].join("\n");
        },
      }),
      parallel: { left: LEFT, right: RIGHT, top: 10, bottom: 18, axisExpandable: false },
      parallelAxis: scales.map((axis, dim) => {
        const marks = axis.axisMarks();
        return {
          id: `axis-${dim}`, dim, type: "value", min: axis.bottom, max: 1, realtime: false,
          name: "", // the heads have it
          axisLine: { lineStyle: { color: colour("--quiet"), opacity: 0.7 } },
          axisTick: { customValues: marks.places, length: 4, lineStyle: { color: colour("--quiet") } },
          axisLabel: {
            customValues: marks.places, formatter: (/** @type {number} */ place) => shortened(marks.label(place)), fontSize: 11,
            color: colour("--ink"), textBorderColor: colour("--ground"), textBorderWidth: 3,
          },
          areaSelectStyle: { width: 18, borderWidth: 1, borderColor: colour("--accent"), color: colour("--accent"), opacity: 0.18 },
        };
      }),
      series: [
        {
          name: "others", type: "parallel", silent: true, progressive: 0, activeOpacity: 1, inactiveOpacity: 0.3,
          lineStyle: { color: colour("--line"), width: 1, opacity: 0.3 },
          data: data.trials.filter((trial) => !isChosen.has(trial.id)).map((trial) => ({ value: line(trial) })),
        },
        {
          name: "chosen", type: "parallel", progressive: 0, cursor: "pointer", inactiveOpacity: 0.03, activeOpacity: many ? 0.5 : 0.85,
          lineStyle: { width: many ? 1 : 1.6, opacity: many ? 0.5 : 0.8 },
          emphasis: { lineStyle: { width: 4, opacity: 1 } },
          // the best on top
          data: [...chosen].reverse().map((trial) => ({ value: line(trial), trial, lineStyle: { color: scale.css(data.goodness(trial)) } })),
        },
      ],
    };
  }
}

/** @param {string} text  of a tick, between two axes */
function shortened(text) {
  return text.length <= 14 ? text : `${text.slice(0, 13)}…`;
}

/**
 * ECharts draws a range, after each drawing of the chart, in a colour of its own whatever style was given for it.
 * @param {any} chart
 */
function colourRanges(chart) {
  for (const shape of chart.getZr().storage.getDisplayList()) {
    if (shape.name !== "main" || shape.type !== "rect" || shape.style.fill === colour("--accent")) continue;
    shape.setStyle({ fill: colour("--accent"), stroke: colour("--accent"), lineWidth: 1, opacity: 0.3 });
  }
}
