/** How much each parameter matters and how the result goes with it: a table whose numbers have bars beside them. */

import { breaking } from "../../lib/names.js";
import { rest, RestError } from "../../lib/rest.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
/** Of more parameters the most important are shown until all are wanted. */
const SHOWN = 10;

/**
 * @param {string} className
 * @param {number} from  0 to 1
 * @param {number} to
 */
function bar(className, from, to) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} 10`);
  svg.setAttribute("class", `value-bar ${className}`);
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS(SVG, "rect");
  rect.setAttribute("x", String(from * WIDTH));
  rect.setAttribute("width", String(Math.max(1, (to - from) * WIDTH)));
  rect.setAttribute("height", "10");
  rect.setAttribute("rx", "2");
  if (className !== "share") {
    const middle = document.createElementNS(SVG, "line");
    for (const [name, value] of [["x1", WIDTH / 2], ["x2", WIDTH / 2], ["y1", 0], ["y2", 10]]) middle.setAttribute(String(name), String(value));
    svg.append(rect, middle);
  } else svg.append(rect);
  return svg;
}

/** @param {string} text */
function figure(text) {
  const made = document.createElement("span");
  made.className = "figure";
  made.textContent = text;
  return made;
}

/**
 * @param {string} className
 * @param {(Node | string)[]} parts
 */
function cell(className, ...parts) {
  const made = document.createElement("td");
  made.className = className;
  made.append(...parts);
  return made;
}

export class ImportanceTable {
  /**
   * @param {string} experiment
   * @param {(name: string) => string} title  a parameter's name for people
   * @param {import("./compared_metric.js").ComparedMetric} metric
   */
  constructor(experiment, title, metric) {
    this.title = title;
    this.metric = metric;
    this.experiment = experiment;
    /** How many results the last answer knew of. */
    this.trials = -1;
    /** How many answers are on their way. */
    this.loading = 0;
    /** The most important first. @type {string[]} */
    this.order = [];
    this.note = /** @type {HTMLElement} */ (document.getElementById("importance-note"));
    this.table = /** @type {HTMLElement} */ (document.getElementById("importance"));
    this.more = /** @type {HTMLElement} */ (document.getElementById("all-importances"));
    this.areAll = false;
    this.more.addEventListener("click", () => {
      this.areAll = true;
      this.cut();
      /** @type {HTMLElement} */ (this.table.closest(".table")).focus();
    });
  }

  /** Another metric: what there is says nothing about it. */
  clear() {
    this.trials = -1;
    this.table.hidden = this.more.hidden = true;
    this.note.textContent = "Working out how much each parameter matters …";
  }

  async load() {
    const { query } = this.metric;
    this.loading += 1;
    this.note.setAttribute("aria-busy", "true");
    try {
      const found = await rest("GET", `experiments/${this.experiment}/parameters/importance/${query}`);
      if (query === this.metric.query) this.show(found);
    } catch (error) {
      if (query === this.metric.query) this.note.textContent = error instanceof RestError ? error.sentences : String(error);
    } finally {
      this.loading -= 1;
      if (this.loading === 0) this.note.removeAttribute("aria-busy");
    }
  }

  /** @param {any} found */
  show(found) {
    this.trials = found.trials;
    if (found.looked_at === 0) {
      this.note.textContent = found.trials < found.needed
        ? `Importance needs at least ${found.needed} results; there ${found.trials === 1 ? "is 1" : `are ${found.trials}`} so far.`
        : "There are no parameters to compare.";
      this.table.hidden = this.more.hidden = true;
      return;
    }
    this.note.textContent = `From ${found.looked_at.toLocaleString()} ${found.looked_at < found.trials ? `of ${found.trials.toLocaleString()} results, spread evenly` : "results"}.`
      + (found.looked_at < 50 ? " With so few it may still change much." : "");
    const rows = [...found.parameters].sort((one, other) => (other.importance ?? -1) - (one.importance ?? -1));
    this.order = rows.map((row) => row.name);
    const most = Math.max(...rows.map((row) => row.importance ?? 0), 1e-9);
    const body = rows.map((row) => {
      const line = document.createElement("tr");
      const name = document.createElement("th");
      name.scope = "row";
      name.append(...breaking(this.title(row.name)));
      const { importance, correlation } = row;
      line.append(name);
      line.append(importance === null ? cell("number quiet", "does not vary")
        : cell("number", bar("share", 0, importance / most), figure(`${(importance * 100).toFixed(importance < 0.0995 ? 1 : 0)} %`)));
      line.append(correlation === null ? cell("number quiet", "no order")
        : cell("number", bar(correlation < 0 ? "falls" : "rises", 0.5 + Math.min(0, correlation) / 2, 0.5 + Math.max(0, correlation) / 2),
          figure(`${correlation < 0 ? "−" : "+"}${Math.abs(correlation).toFixed(2)}`)));
      line.append(cell("number quiet", row.count.toLocaleString()));
      return line;
    });
    this.table.querySelector("tbody")?.replaceChildren(...body);
    this.table.hidden = false;
    this.cut();
  }

  /** Hide the rows of what matters least. */
  cut() {
    const rows = [...this.table.querySelectorAll("tbody tr")];
    rows.forEach((row, place) => row.toggleAttribute("hidden", !this.areAll && place >= SHOWN));
    this.more.hidden = this.areAll || rows.length <= SHOWN;
    this.more.textContent = `Show all ${rows.length}`;
  }
}
