/** The tab of all trials. */

import { showError } from "../../ui/action_error.js";
import { findInList } from "../../ui/find_in_list.js";
import { stopOnClick } from "../../ui/tensorboard.js";
import { page, startHead } from "../head.js";
import { TableAddress } from "./table_address.js";
import { TrialSelection } from "./trial_selection.js";
import { TrialsTable } from "./trials_table.js";

const form = /** @type {HTMLFormElement} */ (document.getElementById("trial-filter"));
const box = /** @type {HTMLInputElement} */ (form.elements.namedItem("filter"));
const columns = () => /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll('input[name="columns"]')]);

const address = new TableAddress(arrived);
const selection = new TrialSelection(page, () => address.refresh());
const table = new TrialsTable(page, () => address.refresh(), () => selection.show());

/** Whether the table has room: then its heads stay below the line of the experiment, else in a frame of their own. */
function fitted() {
  const made = document.getElementById("trials-table");
  const frame = made?.parentElement;
  if (made && frame) made.toggleAttribute("data-fits", made.offsetWidth <= frame.clientWidth);
}

/** @param {any} fresh  what the new table was made with */
function arrived(fresh) {
  Object.assign(page, { filters: {}, ...fresh, experiment: page.experiment });
  const given = new URL(location.href).searchParams;
  if (document.activeElement !== box) box.value = given.get("filter") ?? "";
  box.toggleAttribute("aria-invalid", !document.getElementById("filter-mistake")?.hidden);
  const without = (given.get("without") ?? "").split(",");
  const usual = page.usual_columns.filter((/** @type {string} */ name) => !without.includes(name));
  const shown = given.get("columns")?.split(",") ?? usual;
  for (const choice of columns()) choice.checked = shown.includes(choice.value);
  /** @type {HTMLSelectElement} */ (form.elements.namedItem("page_size")).value = String(page.page_size);
  /** @type {HTMLSelectElement} */ (form.elements.namedItem("density")).value = page.density;
  /** @type {HTMLElement} */ (document.getElementById("show-all")).hidden = !page.is_filtered;
  table.madeAnew();
  table.heard(address.early);
  selection.madeAnew();
  fitted();
}

/** @param {Promise<unknown>} done */
function told(done) {
  done.then(() => showError(null), showError);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  for (const field of form.querySelectorAll(":disabled")) field.removeAttribute("disabled");
  told(address.change({ filter: box.value.trim() }));
});
box.addEventListener("search", () => box.value || told(address.change({ filter: "" }))); // the cross in the box
form.addEventListener("change", (event) => {
  const field = /** @type {HTMLInputElement} */ (event.target);
  if (field.name === "columns") showColumns();
});
form.addEventListener("change", (event) => {
  const field = /** @type {HTMLSelectElement} */ (event.target);
  if (field.name === "page_size") told(address.change({ page_size: field.value === String(page.usual_size) ? "" : field.value }));
  else if (field.name === "density") told(address.change({ density: field.value === page.usual_density ? "" : field.value, page: given("page") }));
  else return;
  event.stopImmediatePropagation();
}, { capture: true });
for (const button of document.querySelectorAll("[data-parameters]")) {
  button.addEventListener("click", () => {
    const all = /** @type {HTMLElement} */ (button).dataset.parameters === "all";
    for (const choice of columns()) if (choice.value.startsWith("parameters.")) choice.checked = all;
    showColumns();
  });
}
document.getElementById("usual-columns")?.addEventListener("click", () => told(address.change({ columns: "", without: "", page: given("page") })));

/**
 * The shorter of the columns that are chosen and those of the usual ones that are not: one of a hundred parameters that
 * is hidden is one name.
 * @param {string[]} chosen
 */
function inAddress(chosen) {
  /** @type {string[]} */
  const usual = page.usual_columns;
  if (chosen.join(",") === usual.join(",")) return { columns: "", without: "" };
  const hidden = usual.filter((name) => !chosen.includes(name)).join(",");
  const isLess = chosen.length > 0 && chosen.every((name) => usual.includes(name)) && hidden.length < chosen.join(",").length;
  return isLess ? { columns: "", without: hidden } : { columns: chosen.join(","), without: "" };
}

/** The table with the columns that are chosen now. */
function showColumns() {
  const chosen = columns().filter((choice) => choice.checked).map((choice) => choice.value);
  told(address.change({ ...inAddress(chosen), page: given("page") }));
}

/** @param {string} name */
function given(name) {
  return new URL(location.href).searchParams.get(name) ?? "";
}

document.addEventListener("keydown", (event) => {
  const writes = event.target instanceof HTMLElement && event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    box.focus();
    box.select();
  }
});

for (const find of document.querySelectorAll("[data-find-in]")) findInList(/** @type {HTMLInputElement} */ (find));
fitted();
new ResizeObserver(fitted).observe(/** @type {Element} */ (document.querySelector(".trials .table")));
stopOnClick(page.experiment.id);
/** @param {any[]} trials */
function heard(trials) {
  address.heard(trials);
  table.heard(trials);
}

startHead({ heard, missed: () => address.refresh() });
