/** A small line of the best result so far, as steps. */

import { partOf } from "../lib/part_of.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const WIDTH = 72;
const HEIGHT = 20;

/**
 * Draw `[[sequence, value], ...]` into an element; the last value goes on to `total` trials.
 * @param {Element} element
 * @param {[number, number][]} points
 * @param {number} total
 */
export function drawSparkline(element, points, total) {
  if (points.length === 0) {
    element.replaceChildren();
    return;
  }
  const values = points.map((point) => point[1]);
  const least = Math.min(...values);
  const most = Math.max(...values);
  const last = Math.max(total - 1, points[points.length - 1][0], 1);
  const x = (/** @type {number} */ sequence) => 1 + (sequence / last) * (WIDTH - 2);
  const y = (/** @type {number} */ value) => HEIGHT - 2 - (least < most ? partOf(value, least, most) : 0) * (HEIGHT - 4);
  let path = "";
  for (const [sequence, value] of points) {
    path += path ? `H${x(sequence).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(sequence).toFixed(1)} ${y(value).toFixed(1)}`;
  }
  path += `H${(WIDTH - 1).toFixed(1)}`;
  const svg = document.createElementNS(NAMESPACE, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("width", String(WIDTH));
  svg.setAttribute("height", String(HEIGHT));
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `best so far, improved ${points.length - 1} times`);
  const line = document.createElementNS(NAMESPACE, "path");
  line.setAttribute("d", path);
  svg.append(line);
  element.replaceChildren(svg);
}
