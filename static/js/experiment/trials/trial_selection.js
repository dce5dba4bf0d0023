/** Chosen trials, also those on other pages of the table: compared, stopped, run again, tagged, exported. */

import { showError } from "../../ui/action_error.js";
import { refreshParts } from "../../ui/refreshed_parts.js";
import { startTensorBoard } from "../../ui/tensorboard.js";
import { addressState, writeAddress } from "../address_state.js";
import { carrySelection, MOST_CARRIED, selectedInAddress } from "../carried_selection.js";
import { MOST_COMPARED } from "../compared_trials.js";
import { runMany } from "./many_trials.js";

/** Ids that fit into an address; the export of more asks for tags. */
const MOST_IN_ADDRESS = 500;
/** Trials of one TensorBoard. */
const MOST_SHOWN = 50;

export class TrialSelection {
  /**
   * @param {any} page  what the table was made with: experiment, filters, fitting
   * @param {() => Promise<unknown>} refresh  brings the table as the server has it now
   */
  constructor(page, refresh) {
    this.page = page;
    this.refresh = refresh;
    /** @type {Set<string>} */
    this.ids = new Set(selectedInAddress());
    /** All that fit the filter, whatever their ids are. */
    this.all = false;
    /** The row that was chosen last, for a choice of all between. @type {string | undefined} */
    this.last = undefined;
    document.addEventListener("click", (event) => this.clicked(event));
    this.show();
  }

  rows() {
    return /** @type {HTMLTableRowElement[]} */ ([...document.querySelectorAll("#trials-table tbody tr[data-id]")]);
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = event.target instanceof Element ? event.target : null;
    if (target instanceof HTMLInputElement && target.matches("[data-choose]")) this.choose(target, event.shiftKey);
    else if (target instanceof HTMLInputElement && target.id === "choose-page") {
      this.all = false;
      for (const row of this.rows()) this.put(row.dataset.id, target.checked);
      this.show();
    } else if (target?.id === "choose-all") {
      this.all = true;
      this.show();
    } else if (target instanceof HTMLButtonElement && target.dataset.many) this.act(target.dataset.many, target);
  }

  /**
   * @param {HTMLInputElement} box
   * @param {boolean} between  with all rows since the last one
   */
  choose(box, between) {
    if (this.all) { // from all that fit to those that are seen, but this one
      this.all = false;
      for (const row of this.rows()) this.put(row.dataset.id, true);
    }
    const ids = this.rows().map((row) => row.dataset.id);
    const now = ids.indexOf(box.closest("tr")?.dataset.id);
    const before = between ? ids.indexOf(this.last) : -1;
    const [first, last] = before < 0 ? [now, now] : [Math.min(before, now), Math.max(before, now)];
    for (const id of ids.slice(first, last + 1)) this.put(id, box.checked);
    this.last = ids[now];
    this.show();
  }

  /**
   * @param {string | undefined} id
   * @param {boolean} is
   */
  put(id, is) {
    if (!id) return;
    if (is) this.ids.add(id);
    else this.ids.delete(id);
  }

  clear() {
    this.ids.clear();
    this.all = false;
    this.show();
  }

  /** The server made the table anew: other trials may fit now. */
  madeAnew() {
    if (this.all) this.clear();
    else this.show();
  }

  get count() {
    return this.all ? this.page.fitting : this.ids.size;
  }

  /** Show what is chosen, and what can be done with it. */
  show() {
    const rows = this.rows();
    let chosenHere = 0;
    for (const row of rows) {
      const chosen = this.all || this.ids.has(row.dataset.id ?? "");
      chosenHere += Number(chosen);
      row.classList.toggle("chosen", chosen);
      const box = row.querySelector("[data-choose]");
      if (box instanceof HTMLInputElement) box.checked = chosen;
    }
    const every = document.getElementById("choose-page");
    if (every instanceof HTMLInputElement) {
      every.checked = rows.length > 0 && chosenHere === rows.length;
      every.indeterminate = chosenHere > 0 && chosenHere < rows.length;
    }
    const carried = this.all ? [] : [...this.ids];
    carrySelection(carried);
    const inAddress = carried.length <= MOST_CARRIED ? carried.join(",") : "";
    if ((addressState().get("selected") ?? "") !== inAddress) writeAddress({ selected: inAddress || null });
    const { count } = this;
    const words = document.getElementById("chosen");
    if (words) words.textContent = this.all ? `All ${count.toLocaleString()} that match are selected` : count ? `${count.toLocaleString()} selected` : "None selected";
    const all = /** @type {HTMLButtonElement} */ (document.getElementById("choose-all"));
    all.hidden = this.all || chosenHere < rows.length || rows.length === 0 || this.page.fitting <= rows.length;
    all.textContent = `Select all ${this.page.fitting.toLocaleString()} that match`;
    for (const button of document.querySelectorAll("[data-many]")) {
      if (!(button instanceof HTMLButtonElement)) continue;
      const compares = button.dataset.many === "compare";
      const shows = button.dataset.many === "tensorboard";
      button.disabled = count === 0 || (shows && (this.all || count > MOST_SHOWN)) || (compares && (this.all || count < 2 || count > MOST_COMPARED));
      if (shows) button.title = count === 0 || !button.disabled ? "" : `At most ${MOST_SHOWN} trials, chosen one by one, can be shown.`;
      if (compares) button.title = count === 0 || !button.disabled ? "" : `From 2 to ${MOST_COMPARED} trials can be compared.`;
    }
    this.showExport();
  }

  showExport() {
    const some = !this.all && this.ids.size > 0;
    const what = document.getElementById("export-what");
    if (what) what.textContent = some ? `the ${this.ids.size.toLocaleString()} selected` : "all that match";
    for (const link of document.querySelectorAll("[data-export]")) {
      const query = new URLSearchParams({ format: /** @type {HTMLElement} */ (link).dataset.export ?? "" });
      if (some) query.set("trials", [...this.ids].join(","));
      else for (const [name, value] of Object.entries(this.page.filters)) query.set(name, String(value));
      const tooMany = some && this.ids.size > MOST_IN_ADDRESS;
      link.toggleAttribute("aria-disabled", tooMany);
      link.setAttribute("title", tooMany ? `At most ${MOST_IN_ADDRESS}: tag them, and filter by the tag.` : "");
      if (tooMany) link.removeAttribute("href");
      else link.setAttribute("href", `/api/v1/experiments/${this.page.experiment.id}/export/?${query}`);
    }
  }

  /**
   * @param {string} action
   * @param {HTMLButtonElement} button
   */
  async act(action, button) {
    if (action === "clear") {
      this.clear();
      return;
    }
    if (action === "compare") {
      const ids = [...this.ids].join(",");
      location.assign(`/experiments/${this.page.experiment.id}/compare/?trials=${ids}&selected=${ids}`);
      return;
    }
    button.disabled = true;
    try {
      if (action === "tensorboard") {
        await startTensorBoard(this.page.experiment.id, [...this.ids]);
        await refreshParts(["tensorboards"]);
        showError(null);
        return;
      }
      const chosen = this.all ? { fitting: this.page.filters } : { trials: [...this.ids] };
      if (await runMany(action, this.page.experiment.id, this.count, chosen)) await this.refresh();
      showError(null);
    } catch (error) {
      showError(error, button);
    } finally {
      this.show();
    }
  }
}
