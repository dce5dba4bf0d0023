/** A small chart for each parameter: its values against the result. Those out of sight are drawn when they come into it. */

import { axis, colour, makeChart, tooltip, WHOLE_LIBRARY } from "../../charts/chart.js";
import { digits } from "../../lib/formats.js";
import { breaking } from "../../lib/names.js";
import { RESULT } from "./parameter_data.js";

export class SliceCharts {
  /**
   * @param {HTMLElement} element
   * @param {import("./parameter_data.js").ParameterData} data
   */
  constructor(element, data) {
    this.element = element;
    this.data = data;
    /** @type {Map<string, {box: HTMLElement, redraw?: () => void, stale: boolean, visible: boolean, started: boolean}>} */
    this.charts = new Map();
    this.watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const chart = this.charts.get(/** @type {HTMLElement} */ (entry.target).dataset.name ?? "");
        if (!chart) continue;
        chart.visible = entry.isIntersecting;
        this.show(/** @type {HTMLElement} */ (entry.target).dataset.name ?? "");
      }
    }, { rootMargin: "200px" });
  }

  /**
   * All anew, the next time they are seen.
   * @param {string[]} names  of the parameters that have one, in their order
   */
  draw(names) {
    for (const [name, { box }] of this.charts) {
      if (names.includes(name)) continue;
      box.parentElement?.remove();
      this.charts.delete(name);
    }
    for (const name of names) {
      let chart = this.charts.get(name);
      if (!chart) {
        const figure = document.createElement("figure");
        figure.tabIndex = -1; // the focus goes there when more are shown
        const caption = document.createElement("figcaption");
        caption.append(...breaking(this.data.title(name)));
        const box = document.createElement("div");
        box.className = "chart slice";
        box.dataset.name = name;
        box.setAttribute("role", "img");
        figure.append(caption, box);
        chart = { box, stale: true, visible: false, started: false };
        this.charts.set(name, chart);
        this.watch.observe(box);
      }
      const figure = /** @type {HTMLElement} */ (chart.box.parentElement);
      const place = names.indexOf(name);
      if (this.element.children[place] !== figure) this.element.insertBefore(figure, this.element.children[place] ?? null);
      chart.stale = true;
      chart.box.setAttribute("aria-label", this.words(name));
      this.show(name);
    }
  }

  /**
   * The chart in words.
   * @param {string} name
   */
  words(name) {
    const [best] = this.data.chosen();
    const column = /** @type {any} */ (this.data.column(name));
    const used = column.values.filter((/** @type {number | null} */ value) => value !== null).length;
    const at = best ? `; the best, ${digits(best.value)}, at ${this.data.scale(name).label(column.values[best.at])}` : "";
    return `${this.data.resultHeading} of ${used} trials against ${this.data.title(name)}${at}`;
  }

  /** @param {string} name */
  async show(name) {
    const chart = this.charts.get(name);
    if (!chart || !chart.visible || !chart.stale) return;
    chart.stale = false;
    if (chart.started) {
      chart.redraw?.();
      return;
    }
    chart.started = true;
    const made = await makeChart(chart.box, () => this.options(name), WHOLE_LIBRARY);
    chart.redraw = made.redraw;
    made.chart.on("click", (/** @type {any} */ event) => {
      if (event.data?.trial) location.assign(`/trials/${event.data.trial.id}/`);
    });
    made.redraw();
  }

  /** @param {string} name */
  options(name) {
    const { data } = this;
    const column = data.column(name);
    if (!column) return {};
    const scale = data.scale(name);
    const marks = scale.axisMarks(4);
    const colours = data.colours.scale();
    const chosen = data.chosen();
    const isChosen = new Set(chosen.map((trial) => trial.id));
    // options side by side, each trial a little beside the line, always at the same place
    const beside = (/** @type {any} */ trial) => (scale.isCategory ? (((trial.sequence * 0.618) % 1) - 0.5) * Math.min(0.12, 0.5 / scale.options.length) : 0);
    const point = (/** @type {any} */ trial) => [scale.place(column.values[trial.at]) + beside(trial), trial.value];
    const size = data.trials.length > 400 ? 4 : 6;
    const room = scale.isCategory ? Math.min(0.2, 0.5 / scale.options.length) : 0.03;
    return {
      tooltip: tooltip({
        trigger: "item", formatter: (/** @type {any} */ event) => (event.data?.trial
          ? `trial ${event.data.trial.sequence}\n${data.title(name)} ${scale.label(column.values[event.data.trial.at])}\n${data.title(RESULT)} ${digits(event.data.trial.value)}` : ""),
      }),
      grid: { left: 4, right: 12, top: 8, bottom: 4, containLabel: true },
      xAxis: axis({
        type: "value", min: scale.bottom - room, max: 1 + room, splitLine: { show: false },
        axisTick: { show: true, customValues: marks.places, length: 3, lineStyle: { color: colour("--line") } },
        axisLabel: { customValues: marks.places, formatter: marks.label, color: colour("--quiet"), fontSize: 11, hideOverlap: true },
        axisLine: { onZero: false, lineStyle: { color: colour("--line") } },
      }),
      yAxis: axis({
        type: data.result?.logarithmic ? "log" : "value", scale: true, splitNumber: 3, axisLine: { show: false },
        axisLabel: { color: colour("--quiet"), formatter: digits, fontSize: 11 },
      }),
      series: [
        {
          name: "others", type: "scatter", silent: true, symbolSize: size - 2, itemStyle: { color: colour("--quiet"), opacity: 0.22 },
          data: data.trials.filter((trial) => !isChosen.has(trial.id)).map(point),
        },
        {
          name: "chosen", type: "scatter", symbolSize: size, cursor: "pointer",
          data: [...chosen].reverse().map((trial) => ({
            value: point(trial), trial,
            itemStyle: { color: colours.css(data.goodness(trial)), borderColor: colour("--ground"), borderWidth: size > 4 ? 0.5 : 0 },
          })),
        },
      ],
    };
  }
}
