/**
 * Charts by ECharts in the page's own colours. Tooltips are rich text on the canvas: the HTML ones write
 * style attributes, which the pages' Content-Security-Policy forbids.
 */

/** The common build has lines, points and all that goes with them; it names itself globally. */
const LIBRARY = "/static/echarts/echarts.common.min.js";
/** All there is: for series that the common build has not. */
export const WHOLE_LIBRARY = "/static/echarts/echarts.min.js";

/**
 * @param {string} address
 * @returns {Promise<any>} ECharts
 */
async function library(address) {
  await import(address);
  return /** @type {any} */ (globalThis).echarts;
}

/** @param {string} name of a custom property */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * The colour of a trial's status, the same as everywhere (nniweb.css).
 * @param {string} status
 */
export function statusColour(status) {
  return colour(`--status-${part(status)}`);
}

/** @param {string} status */
export function statusIcon(status) {
  return colour(`--icon-${part(status)}`).replaceAll('"', "");
}

/** @param {string} status */
function part(status) {
  return status.toLowerCase().replaceAll("_", "-");
}

/**
 * A chart in an element. `options()` is asked for everything, also again when the theme changes.
 * @param {HTMLElement} element
 * @param {() => any} options
 * @param {string} [address]  of the library's build
 * @param {(chart: any) => void} [drawn]  called after each drawing
 */
export async function makeChart(element, options, address = LIBRARY, drawn = undefined) {
  const echarts = await library(address);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const chart = echarts.init(element, null, { renderer: "canvas" });
  const draw = () => {
    chart.setOption({ ...base(), animation: false, ...options() }, { notMerge: true, lazyUpdate: !still && !drawn });
    drawn?.(chart);
  };
  new ResizeObserver(() => chart.resize()).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let asked = false;
  draw();
  return {
    chart,
    /** Draw again, at most once a frame of the screen. */
    redraw() {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        draw();
      });
    },
  };
}

function base() {
  return {
    backgroundColor: "transparent",
    textStyle: { color: colour("--quiet"), fontFamily: "system-ui, sans-serif" },
    grid: { left: 8, right: 16, top: 16, bottom: 4, containLabel: true },
    tooltip: tooltip(),
  };
}

/** @param {any} [more] */
export function tooltip(more) {
  return {
    renderMode: "richText", confine: true, backgroundColor: colour("--raised"), borderColor: colour("--line"),
    textStyle: { color: colour("--ink"), fontSize: 12 }, ...more,
  };
}

/**
 * An axis at the edge of its chart, also where the other one goes through 0.
 * @param {any} more
 */
export function axis(more) {
  return {
    axisLine: { onZero: false, lineStyle: { color: colour("--line") } }, axisTick: { show: false },
    axisLabel: { color: colour("--quiet"), hideOverlap: true }, splitLine: { lineStyle: { color: colour("--line"), opacity: 0.6 } },
    nameTextStyle: { color: colour("--quiet") }, ...more,
  };
}
