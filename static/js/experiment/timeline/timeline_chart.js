/** Draws a timeline: a row for each GPU or slot, a bar for each attempt, waits above all, a line for the present. */

import { axis, colour, makeChart, statusColour, statusIcon, WHOLE_LIBRARY } from "../../charts/chart.js";
import { clock } from "../../lib/clock.js";
import { duration, statusWord } from "../../lib/formats.js";

/** Heights in pixels: of a row, and of what is above and below all rows. */
const ROW = 22;
const AROUND = 104;
/** With more rows than this they are moved through. */
const MOST_ROWS = 60;
/** Longest name of a machine that stands whole, on a desk and on a phone. */
const LONGEST_NAME = [22, 9];

/** Statuses in the order of the legend. */
const ORDER = ["RUNNING", "SUCCEEDED", "EARLY_STOPPED", "FAILED", "USER_CANCELED", "SYS_CANCELED", "WAITING", "UNKNOWN"];

export class TimelineChart {
  /**
   * @param {HTMLElement} element
   * @param {{moved: (begin: number, end: number) => void}} listener  told where somebody moved the window, in seconds
   */
  constructor(element, { moved }) {
    this.element = element;
    this.moved = moved;
    /** @type {any} */
    this.found = null;
    this.took = 0;
    this.started = false;
  }

  /** @param {any} found  an answer of the server */
  async take(found) {
    this.found = found;
    this.took = performance.now();
    this.waitLanes = found.waits.lane.length ? Math.max(...found.waits.lane) + 1 : 0;
    this.lines = this.waitLanes + found.rows.length;
    this.element.style.height = `${Math.max(200, Math.min(this.lines, MOST_ROWS) * ROW + AROUND)}px`;
    if (this.started) {
      this.redraw?.();
      return;
    }
    this.started = true;
    const { chart, redraw } = await makeChart(this.element, () => this.options(), WHOLE_LIBRARY);
    this.chart = chart;
    this.redraw = redraw;
    chart.on("datazoom", () => {
      const zoom = chart.getOption().dataZoom[0];
      this.view = [zoom.startValue / 1000, zoom.endValue / 1000];
      this.moved(zoom.startValue / 1000, zoom.endValue / 1000);
    });
    chart.on("click", (/** @type {any} */ event) => this.clicked(event.data));
    redraw();
  }

  /** Time has passed. */
  tick() {
    if (this.started && this.goesOn) this.redraw?.();
  }

  get goesOn() {
    return this.found.now <= this.found.extent[1] + 0.5 && (this.found.runs.end.includes(null) || this.found.waits.end.includes(null));
  }

  /** The present by the server's clock. */
  get now() {
    return this.found.now + (performance.now() - this.took) / 1000;
  }

  /** @param {any} item */
  clicked(item) {
    if (!item?.id) return;
    if (item.merged) {
      const [begin, end] = [item.value[1] / 1000, item.value[2] / 1000];
      const room = Math.max(end - begin, 0.05) * 0.1;
      this.moved(begin - room, end + room);
    } else location.assign(`/trials/${item.id}/`);
  }

  /**
   * The part of a machine that a row is.
   * @param {any} row
   */
  place(row) {
    const shared = this.found.rows.filter((/** @type {any} */ other) => other.machine === row.machine && other.gpu === row.gpu).length > 1;
    if (row.gpu === null) return shared ? `slot ${row.lane + 1}` : "";
    return shared ? `GPU ${row.gpu} (${row.lane + 1})` : `GPU ${row.gpu}`;
  }

  labels() {
    const longest = LONGEST_NAME[this.isNarrow ? 1 : 0];
    const waits = Array.from({ length: this.waitLanes ?? 0 }, (_, lane) => (lane === 0 ? "waiting" : ""));
    const rows = this.found.rows.map((/** @type {any} */ row, /** @type {number} */ index) => {
      const before = this.found.rows[index - 1];
      const name = row.machine || "not known";
      const short = name.length > longest ? `${name.slice(0, longest - 1)}…` : name;
      return [before && before.machine === row.machine ? "" : short, this.place(row)].filter(Boolean).join("  ");
    });
    return [...waits, ...rows];
  }

  get isNarrow() {
    return this.element.clientWidth < 600;
  }

  options() {
    const { found } = this;
    const [first, last] = found.extent;
    const now = this.now;
    const end = this.goesOn ? Math.max(last, now) : last;
    const margin = (end - first) * 0.01;
    const series = [...this.runSeries(now), this.waitSeries(now)];
    const names = series.map((each) => each.name);
    if (this.goesOn) series.push(this.nowSeries(now));
    const isAll = found.window[0] <= first && found.window[1] >= last;
    const window = isAll ? [first - margin, end + margin] : found.window;
    const narrow = this.isNarrow;
    return {
      tooltip: { trigger: "item", ...tooltipLook(), formatter: (/** @type {any} */ event) => this.words(event.data) },
      legend: {
        top: 0, left: 0, type: "scroll", itemHeight: 9, itemWidth: 14, textStyle: { color: colour("--quiet") }, inactiveColor: colour("--line"), data: names,
        pageTextStyle: { color: colour("--quiet") }, pageIconColor: colour("--quiet"), pageIconInactiveColor: colour("--line"),
      },
      // the last time stands under its tick, half of it to the right
      grid: { left: 8, right: 32, top: 34, bottom: 44, containLabel: true },
      xAxis: axis({
        type: "time", min: (first - margin) * 1000, max: (end + margin) * 1000, splitNumber: narrow ? 3 : 8,
        splitLine: { show: true, lineStyle: { color: colour("--line"), opacity: 0.6 } },
      }),
      yAxis: axis({
        type: "category", inverse: true, data: this.labels(), splitLine: { show: false }, axisLine: { show: false },
        axisLabel: { color: colour("--quiet"), interval: 0, fontSize: narrow ? 10 : 12 },
      }),
      dataZoom: [
        {
          type: "inside", filterMode: "none", startValue: window[0] * 1000, endValue: window[1] * 1000, minValueSpan: 50,
          zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, preventDefaultMouseMove: false,
        },
        {
          type: "slider", filterMode: "none", startValue: window[0] * 1000, endValue: window[1] * 1000, minValueSpan: 50, height: 18, bottom: 6,
          showDataShadow: false, showDetail: false, brushSelect: false, borderColor: colour("--line"), backgroundColor: "transparent",
          fillerColor: withAlpha(colour("--accent"), 0.18), moveHandleSize: 0,
          handleStyle: { color: colour("--ground"), borderColor: colour("--accent") },
        },
        ...(/** @type {number} */ (this.lines) > MOST_ROWS ? [{
          type: "slider", yAxisIndex: 0, filterMode: "none", startValue: 0, endValue: MOST_ROWS - 1, width: 14, right: 0, showDetail: false,
          showDataShadow: false, brushSelect: false, zoomLock: true, borderColor: colour("--line"), fillerColor: withAlpha(colour("--accent"), 0.18),
        }] : []),
      ],
      series,
    };
  }

  /** @param {number} now */
  runSeries(now) {
    const { runs, statuses } = this.found;
    /** @type {Map<string, any[]>} */
    const byStatus = new Map();
    runs.id.forEach((/** @type {string} */ id, /** @type {number} */ index) => {
      const status = statuses[runs.status[index]];
      const data = byStatus.get(status) ?? [];
      byStatus.set(status, data);
      data.push({
        id, status, value: [runs.row[index] + (this.waitLanes ?? 0), runs.begin[index] * 1000, (runs.end[index] ?? now) * 1000],
        sequence: runs.sequence_id[index], attempt: runs.attempt[index], goesOn: runs.end[index] === null, merged: runs.merged[index],
      });
    });
    // the rows themselves: what is idle is seen as such
    const tracks = {
      name: "idle", type: "custom", silent: true, clip: true, z: 1, data: this.found.rows.map((/** @type {any} */ _, /** @type {number} */ index) => [index + (this.waitLanes ?? 0)]),
      encode: { y: 0 }, itemStyle: { color: colour("--raised"), borderColor: colour("--line") },
      renderItem: (/** @type {any} */ place, /** @type {any} */ api) => {
        const [, y] = api.coord([this.found.extent[0] * 1000, api.value(0)]);
        const height = api.size([0, 1])[1] * 0.82;
        return {
          type: "rect", shape: { x: place.coordSys.x, y: y - height / 2, width: place.coordSys.width, height },
          style: { fill: colour("--raised"), stroke: colour("--line"), lineWidth: 0.5 },
        };
      },
    };
    return [tracks, ...[...byStatus].sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other)).map(([status, data]) => ({
      name: statusWord(status), type: "custom", clip: true, z: 2, cursor: "pointer", data, encode: { x: [1, 2], y: 0 }, itemStyle: { color: statusColour(status) },
      renderItem: (/** @type {any} */ place, /** @type {any} */ api) => this.bar(place, api, data[place.dataIndex], statusColour(status)),
    }))];
  }

  /**
   * @param {any} place
   * @param {any} api
   * @param {any} item
   * @param {string} fill
   */
  bar(place, api, item, fill) {
    const [left, y] = api.coord([api.value(1), api.value(0)]);
    const [right] = api.coord([api.value(2), api.value(0)]);
    const height = api.size([0, 1])[1] * 0.82;
    const from = Math.max(left, place.coordSys.x);
    const to = Math.min(Math.max(right, left + 1.5), place.coordSys.x + place.coordSys.width);
    if (to <= from) return null;
    const gap = to - from > 4 ? 0.5 : 0;
    // without room the text is empty: left out, or false, ECharts would keep the one that this bar had before
    const text = `${item.status === "SUCCEEDED" ? "" : statusIcon(item.status)} ${item.merged ? `${total(item.merged)}×` : item.sequence}`.trim();
    return {
      type: "rect", shape: { x: from + gap, y: y - height / 2, width: to - from - 2 * gap, height, r: Math.min(3, (to - from) / 4) },
      style: { fill, opacity: item.merged ? 0.75 : 1 },
      emphasis: { style: { stroke: colour("--ink"), lineWidth: 1.5 } },
      textContent: { style: { text: to - from > 10 + 7 * text.length ? text : "", fill: colour("--ground"), fontSize: 11, fontWeight: 600 } },
      textConfig: { position: "inside" },
    };
  }

  /** @param {number} now */
  waitSeries(now) {
    const { waits } = this.found;
    const data = waits.id.map((/** @type {string} */ id, /** @type {number} */ index) => ({
      id, wait: waits.reason[index] || "waits", value: [waits.lane[index], waits.begin[index] * 1000, (waits.end[index] ?? now) * 1000],
      sequence: waits.sequence_id[index], attempt: waits.attempt[index], goesOn: waits.end[index] === null,
    }));
    const ink = statusColour("WAITING");
    return {
      name: "waiting", type: "custom", clip: true, z: 2, cursor: "pointer", data, encode: { x: [1, 2], y: 0 },
      itemStyle: { color: withAlpha(ink, 0.15), borderColor: ink, borderType: "dashed" },
      renderItem: (/** @type {any} */ place, /** @type {any} */ api) => {
        const drawn = this.bar(place, api, { ...data[place.dataIndex], status: "WAITING" }, withAlpha(ink, 0.15));
        if (!drawn) return null;
        drawn.shape.y += drawn.shape.height * 0.15;
        drawn.shape.height *= 0.7;
        drawn.textContent.style.fill = ink;
        return { ...drawn, style: { fill: withAlpha(ink, 0.15), stroke: ink, lineDash: [3, 2], lineWidth: 1 } };
      },
    };
  }

  /** @param {number} now */
  nowSeries(now) {
    return {
      name: "now", type: "custom", silent: true, z: 5, data: [[now * 1000]], encode: { x: 0 }, itemStyle: { color: colour("--bad") },
      renderItem: (/** @type {any} */ place, /** @type {any} */ api) => {
        const [x] = api.coord([api.value(0), 0]);
        const { x: left, y, width, height } = place.coordSys;
        // the word stands above the rows, where `clip` would cut it off
        if (x < left || x > left + width) return null;
        return {
          type: "group", children: [
            { type: "line", shape: { x1: x, x2: x, y1: y, y2: y + height }, style: { stroke: colour("--bad"), lineWidth: 1.5 } },
            { type: "text", style: { text: "now", x: x - 3, y: y - 1, fill: colour("--bad"), fontSize: 11, textAlign: "right", textVerticalAlign: "bottom" } },
          ],
        };
      },
    };
  }

  /** @param {any} item */
  words(item) {
    if (!item?.id) return "";
    const [, begin, end] = item.value;
    const times = `${clock(begin, true)} to ${item.goesOn ? "now" : clock(end, true)} (${duration((end - begin) / 1000)})`;
    if (item.merged) {
      const counts = Object.entries(item.merged).map(([status, count]) => `${count} ${statusWord(status)}`);
      return `${total(item.merged)} short attempts, from trial ${item.sequence}\n${counts.join(", ")}\n${times}\nclick to zoom in`;
    }
    const name = `trial ${item.sequence}${item.attempt > 1 ? `, attempt ${item.attempt}` : ""}`;
    if (item.wait) return `${name} ${item.goesOn ? "waits" : "waited"}\n${item.wait.replace(/(.{60}\S*)\s/g, "$1\n")}\n${times}`;
    return `${name}\n${statusWord(item.status)}\n${times}`;
  }
}

/** @param {Record<string, number>} counts */
function total(counts) {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function tooltipLook() {
  return {
    renderMode: "richText", confine: true, backgroundColor: colour("--raised"), borderColor: colour("--line"),
    textStyle: { color: colour("--ink"), fontSize: 12 },
  };
}

/**
 * @param {string} hex  #rrggbb
 * @param {number} alpha
 */
function withAlpha(hex, alpha) {
  return `${hex}${Math.round(alpha * 255).toString(16).padStart(2, "0")}`;
}
