/** The best of the chosen trials in a table: what the lines show, for reading. */

import { digits, parameter } from "../../lib/formats.js";
import { breaking } from "../../lib/names.js";
import { pinColumns } from "../../ui/pinned_columns.js";

/** Rows that are shown. */
const MOST = 10;

/**
 * @param {import("./parameter_data.js").ParameterData} data
 * @param {string[]} names  parameters that get a column
 */
export function showChosen(data, names) {
  const chosen = data.chosen();
  const all = data.trials.length;
  const of = data.leftOut ? `${all.toLocaleString()} that are drawn` : all.toLocaleString();
  const words = chosen.length === all ? `All ${of}` : `${chosen.length.toLocaleString()} of ${of}`;
  /** @type {HTMLElement} */ (document.getElementById("chosen-note")).textContent = `${words}${chosen.length > MOST ? `; the best ${MOST}:` : ""}`;
  const head = document.createElement("tr");
  for (const [name, className] of [["No.", "number pin-1"], [data.resultHeading, "number pin-2"], ...names.map((one) => [data.title(one), isNumeric(data.column(one)) ? "breaks number" : "breaks"])]) {
    const th = document.createElement("th");
    th.append(...breaking(name));
    th.className = className;
    th.scope = "col";
    head.append(th);
  }
  const rows = chosen.slice(0, MOST).map((trial) => {
    const row = document.createElement("tr");
    row.dataset.id = trial.id;
    const link = document.createElement("a");
    link.href = `/trials/${trial.id}/`;
    link.textContent = String(trial.sequence);
    const cells = [link, digits(trial.value), ...names.map((name) => {
      const column = /** @type {any} */ (data.column(name));
      const value = column.values[trial.at];
      return value === null ? "" : column.kind === "category" ? parameter(column.options[value]) : digits(value);
    })];
    cells.forEach((content, index) => {
      const cell = document.createElement("td");
      cell.className = head.children[index].className.replace("breaks", "").trim();
      cell.append(content);
      row.append(cell);
    });
    return row;
  });
  const table = /** @type {HTMLTableElement} */ (document.getElementById("chosen"));
  table.tHead?.replaceChildren(head);
  table.tBodies[0].replaceChildren(...rows);
  pinColumns();
  /** @type {HTMLElement} */ (document.getElementById("none-chosen")).hidden = chosen.length > 0 || all === 0;
}

/** @param {any} column */
function isNumeric(column) {
  return column.kind === "number" || column.options.every((/** @type {unknown} */ option) => typeof option === "number");
}
