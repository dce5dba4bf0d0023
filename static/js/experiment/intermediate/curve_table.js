/** The legend of the curves, which is also their table: pointing at a row lets its curve stand out. */

import { showStatus } from "../../ui/status.js";
import { digits } from "../../lib/formats.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} fill
 * @param {boolean} dashed
 */
function swatch(fill, dashed) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 10");
  svg.setAttribute("class", "swatch");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "line");
  for (const [name, value] of Object.entries({ x1: "1", x2: "23", y1: "5", y2: "5", stroke: fill, "stroke-width": "3", "stroke-dasharray": dashed ? "5 3" : "none" })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

export class CurveTable {
  /**
   * @param {HTMLTableElement} table
   * @param {import("./curve_chart.js").CurveChart} chart
   */
  constructor(table, chart) {
    this.table = table;
    this.chart = chart;
    const body = table.tBodies[0];
    const pointAt = (/** @type {Event} */ event) => {
      const row = event.target instanceof Element ? event.target.closest("tr") : null;
      if (row?.dataset.id !== undefined && row.dataset.id !== chart.highlighted) chart.highlight(row.dataset.id);
      this.mark();
    };
    const leave = () => {
      chart.highlight(null);
      this.mark();
    };
    body.addEventListener("pointerover", pointAt);
    body.addEventListener("pointerleave", leave);
    body.addEventListener("focusin", pointAt);
    body.addEventListener("focusout", leave);
    chart.pointed = (id) => {
      chart.highlighted = id;
      this.mark();
    };
  }

  /** The row of the curve that stands out. */
  mark() {
    for (const row of this.table.tBodies[0].rows) row.classList.toggle("stands-out", row.dataset.id === this.chart.highlighted);
  }

  draw() {
    const colours = this.chart.colours();
    const body = this.table.tBodies[0];
    const focused = document.activeElement?.closest("tr")?.dataset.id;
    const rows = this.chart.curves.map((curve, index) => {
      const row = document.createElement("tr");
      row.dataset.id = curve.id;
      const link = document.createElement("a");
      link.href = `/trials/${curve.id}/`;
      link.textContent = String(curve.sequence_id);
      const status = document.createElement("span");
      showStatus(status, curve.status);
      const greatest = this.chart.greaterIsBetter ? Math.max(...curve.values) : Math.min(...curve.values);
      const cells = [swatch(colours[index], curve.status === "EARLY_STOPPED"), link, status, digits(curve.final),
        digits(curve.values[curve.values.length - 1]), digits(greatest), String(curve.steps[curve.steps.length - 1])];
      cells.forEach((content, place) => {
        const cell = row.insertCell();
        if (place === 1 || place > 2) cell.className = "number";
        cell.append(content);
      });
      return row;
    });
    body.replaceChildren(...rows);
    if (focused) /** @type {HTMLElement | null} */ (body.querySelector(`tr[data-id="${CSS.escape(focused)}"] a`))?.focus({ preventScroll: true });
    this.mark();
  }
}
