/**
 * The result over two parameters as a map: between the trials it is their mean, weighted by how near they are; where no
 * trial is near the map stays empty. Bands of equal result are drawn like heights.
 */

import { axis, colour, makeChart, tooltip, WHOLE_LIBRARY } from "../../charts/chart.js";
import { digits } from "../../lib/formats.js";
import { RESULT } from "./parameter_data.js";

/** Cells of the map, across and up, for numbers; options get their own. */
const CELLS = 60;
/** How far a trial reaches, as a part of the axis. */
const REACH = 0.07;
/** With less weight than the first of trials nearby nothing is said; up to the second the map fades in. */
const LEAST_WEIGHT = 0.02;
const FULL_WEIGHT = 0.4;
/** Room beyond both ends of an axis of numbers. */
const EDGE = 0.04;
const BANDS = 9;
/** Pixels of the picture for each cell of numbers. */
const FINER = 4;

export class ContourChart {
  /**
   * @param {HTMLElement} element
   * @param {import("./parameter_data.js").ParameterData} data
   */
  constructor(element, data) {
    this.element = element;
    this.data = data;
    this.x = "";
    this.y = "";
    this.started = false;
  }

  /**
   * @param {string} x  names of parameters
   * @param {string} y
   */
  async draw(x, y) {
    this.x = x;
    this.y = y;
    if (this.started) {
      this.redraw?.();
      return;
    }
    this.started = true;
    const { chart, redraw } = await makeChart(this.element, () => this.options(), WHOLE_LIBRARY);
    this.redraw = redraw;
    chart.on("click", (/** @type {any} */ event) => {
      if (event.data?.trial) location.assign(`/trials/${event.data.trial.id}/`);
    });
    redraw();
  }

  /** Trials that have both parameters. */
  points(x = this.x, y = this.y) {
    const [xs, ys] = [x, y].map((name) => this.data.column(name)?.values ?? []);
    return this.data.trials.filter((trial) => xs[trial.at] !== null && ys[trial.at] !== null && xs.length && ys.length);
  }

  /**
   * The cells along an axis, and how much a trial at a place weighs in each of them.
   * @param {import("./axis_scale.js").AxisScale} scale
   */
  cells(scale) {
    const count = scale.isCategory ? scale.options.length : CELLS;
    // options have half their distance on both sides, numbers a little, so that no trial lies on the edge
    const room = !scale.isCategory ? EDGE : count > 1 ? 0.5 / (count - 1) : 0.5;
    const [low, high] = [-room, 1 + room];
    const middles = Array.from({ length: count }, (_, index) => (scale.isCategory ? scale.place(index) : low + ((index + 0.5) / count) * (high - low)));
    const weights = (/** @type {number} */ place) => middles.map((middle) => (scale.isCategory
      ? Number(Math.abs(place - middle) < 1e-6) : Math.exp(-0.5 * ((place - middle) / REACH) ** 2)));
    return { weights, count, finer: scale.isCategory ? 40 : FINER, low, high };
  }

  /** The map's goodness, row by row from below, and how much weight speaks for it. */
  map() {
    const [across, up] = [this.x, this.y].map((name) => this.cells(this.data.scale(name)));
    const [xs, ys] = [this.x, this.y].map((name) => /** @type {any} */ (this.data.column(name)).values);
    const sums = new Float64Array(across.count * up.count);
    const weights = new Float64Array(across.count * up.count);
    for (const trial of this.points()) {
      const wide = across.weights(this.data.scale(this.x).place(xs[trial.at]));
      const high = up.weights(this.data.scale(this.y).place(ys[trial.at]));
      const good = this.data.goodness(trial);
      for (let row = 0; row < up.count; row += 1) {
        for (let column = 0; column < across.count; column += 1) {
          const weight = wide[column] * high[row];
          weights[row * across.count + column] += weight;
          sums[row * across.count + column] += weight * good;
        }
      }
    }
    // far from all trials too there is a number, so that the edge of what fades is smooth; it is not seen
    return { across, up, weights, cells: sums.map((sum, cell) => (weights[cell] > 0 ? sum / weights[cell] : 0)) };
  }

  /** The map as a picture, bands with a line between them. */
  picture() {
    const { across, up, cells, weights } = this.map();
    const canvas = document.createElement("canvas");
    canvas.width = across.count * across.finer;
    canvas.height = up.count * up.finer;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(canvas.width, canvas.height);
    const colours = this.data.colours.scale();
    const bands = Array.from({ length: BANDS }, (_, band) => colours.rgb((band + 0.5) / BANDS));
    const band = new Int8Array(canvas.width * canvas.height).fill(-1);
    const seen = new Float32Array(band.length);
    for (let y = 0; y < canvas.height; y += 1) {
      for (let x = 0; x < canvas.width; x += 1) {
        const weight = between(weights, across, up, x, canvas.height - 1 - y);
        if (weight < LEAST_WEIGHT) continue;
        const good = between(cells, across, up, x, canvas.height - 1 - y);
        band[y * canvas.width + x] = Math.min(BANDS - 1, Math.floor(good * BANDS));
        seen[y * canvas.width + x] = Math.min(1, (weight - LEAST_WEIGHT) / (FULL_WEIGHT - LEAST_WEIGHT));
      }
    }
    for (let place = 0; place < band.length; place += 1) {
      const here = band[place];
      if (here < 0) continue;
      const right = (place + 1) % canvas.width ? band[place + 1] : here;
      const below = place + canvas.width < band.length ? band[place + canvas.width] : here;
      const isLine = (right >= 0 && right !== here) || (below >= 0 && below !== here);
      const [red, green, blue] = bands[here];
      image.data.set([red, green, blue, (isLine ? 255 : 205) * seen[place]], place * 4);
    }
    context.putImageData(image, 0, 0);
    return { canvas, across, up };
  }

  options() {
    const { data } = this;
    const [one, other] = [data.scale(this.x), data.scale(this.y)];
    if (!one || !other) return {};
    const { canvas, across, up } = this.picture();
    const [xs, ys] = [this.x, this.y].map((name) => /** @type {any} */ (data.column(name)).values);
    const marked = (/** @type {import("./axis_scale.js").AxisScale} */ scale, /** @type {any} */ cells) => {
      const marks = scale.axisMarks(5);
      const places = marks.places.filter((place) => place >= 0);
      return axis({
        type: "value", min: cells.low, max: cells.high, splitLine: { show: false },
        axisLine: { onZero: false, show: false }, axisTick: { show: true, customValues: places, length: 3, lineStyle: { color: colour("--line") } },
        axisLabel: { customValues: places, formatter: marks.label, color: colour("--quiet"), fontSize: 11, hideOverlap: true, width: 80, overflow: "truncate" },
      });
    };
    const colours = data.colours.scale();
    return {
      tooltip: tooltip({
        trigger: "item", formatter: (/** @type {any} */ event) => (event.data?.trial
          ? `trial ${event.data.trial.sequence}, ${data.title(RESULT)} ${digits(event.data.trial.value)}\n${data.title(this.x)}  ${one.label(xs[event.data.trial.at])}\n${data.title(this.y)}  ${other.label(ys[event.data.trial.at])}` : ""),
      }),
      grid: { left: 4, right: 14, top: 10, bottom: 4, containLabel: true },
      xAxis: marked(one, across),
      yAxis: marked(other, up),
      series: [
        {
          name: "map", type: "custom", silent: true, data: [[0, 0]], clip: true,
          renderItem: (/** @type {any} */ params) => {
            const { x, y, width, height } = params.coordSys;
            return { type: "image", style: { image: canvas, x, y, width, height } };
          },
        },
        {
          name: "trials", type: "scatter", symbolSize: data.trials.length > 400 ? 4 : 6, cursor: "pointer",
          data: this.points().map((trial) => ({
            value: [one.place(xs[trial.at]), other.place(ys[trial.at])], trial,
            itemStyle: { color: colours.css(data.goodness(trial)), borderColor: colour("--ground"), borderWidth: 0.8 },
          })),
        },
      ],
    };
  }
}

/**
 * The map's value at a pixel, between the four cells around it; over options it is that of the cell.
 * @param {Float64Array} cells
 * @param {{count: number, finer: number}} across
 * @param {{count: number, finer: number}} up
 * @param {number} x
 * @param {number} y  from below
 */
function between(cells, across, up, x, y) {
  const along = (/** @type {{count: number, finer: number}} */ axis, /** @type {number} */ at) => {
    if (axis.finer !== FINER) return [Math.floor(at / axis.finer), Math.floor(at / axis.finer), 0];
    const place = Math.max(0, Math.min(axis.count - 1, (at + 0.5) / axis.finer - 0.5));
    return [Math.floor(place), Math.min(axis.count - 1, Math.floor(place) + 1), place - Math.floor(place)];
  };
  const [left, right, wide] = along(across, x);
  const [low, high, tall] = along(up, y);
  const cell = (/** @type {number} */ row, /** @type {number} */ column) => cells[row * across.count + column];
  const below = cell(low, left) * (1 - wide) + cell(low, right) * wide;
  const above = cell(high, left) * (1 - wide) + cell(high, right) * wide;
  return below * (1 - tall) + above * tall;
}
