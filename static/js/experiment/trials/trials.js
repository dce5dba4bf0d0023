/** The tab of all trials. */

import { showError } from "../../ui/action_error.js";
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

/** @param {any} fresh  what the new table was made with */
function arrived(fresh) {
  Object.assign(page, { filters: {}, ...fresh, experiment: page.experiment });
  const given = new URL(location.href).searchParams;
  if (document.activeElement !== box) box.value = given.get("filter") ?? "";
  box.toggleAttribute("aria-invalid", !document.getElementById("filter-mistake")?.hidden);
  const shown = (given.get("columns") ?? page.usual_columns.join(",")).split(",");
  for (const choice of columns()) choice.checked = shown.includes(choice.value);
  /** @type {HTMLSelectElement} */ (form.elements.namedItem("page_size")).value = String(page.page_size);
  /** @type {HTMLElement} */ (document.getElementById("show-all")).hidden = !page.is_filtered;
  table.madeAnew();
  selection.madeAnew();
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
  if (field.name === "columns") {
    const chosen = columns().filter((choice) => choice.checked).map((choice) => choice.value);
    told(address.change({ columns: chosen.join(",") === page.usual_columns.join(",") ? "" : chosen.join(","), page: given("page") }));
  }
});
form.addEventListener("change", (event) => {
  const field = /** @type {HTMLSelectElement} */ (event.target);
  if (field.name !== "page_size") return;
  event.stopImmediatePropagation();
  told(address.change({ page_size: field.value === String(page.usual_size) ? "" : field.value }));
}, { capture: true });
document.getElementById("usual-columns")?.addEventListener("click", () => told(address.change({ columns: "", page: given("page") })));

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
  const panel = event.key === "Escape" && event.target instanceof Element ? event.target.closest("details.panel[open]") : null;
  if (panel) {
    panel.removeAttribute("open");
    panel.querySelector("summary")?.focus();
  }
});
document.addEventListener("click", (event) => {
  for (const panel of document.querySelectorAll("details.panel[open]")) {
    if (event.target instanceof Node && !panel.contains(event.target)) panel.removeAttribute("open");
  }
});

stopOnClick(page.experiment.id);
startHead({ heard: (trials) => table.heard(trials), missed: () => address.refresh() });
