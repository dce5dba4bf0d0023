/** What a trial has written on its machine: asked for when somebody wants to see it, since that may take a machine seconds. */

import { byteSize } from "../lib/byte_size.js";
import { rest, RestError } from "../lib/rest.js";
import { moment } from "../ui/times.js";

/** @typedef {{name: string, size: number, modified_at: string | null}} OutputFile */
/** @typedef {{attempt: number, files: OutputFile[], cut: boolean, left_out: number}} Listing */

export class OutputFiles {
  /**
   * @param {HTMLElement} section
   * @param {string} trial
   * @param {() => number} attempt  the one that is shown
   */
  constructor(section, trial, attempt) {
    this.trial = trial;
    this.attempt = attempt;
    this.button = /** @type {HTMLButtonElement} */ (section.querySelector("[data-list]"));
    this.all = /** @type {HTMLAnchorElement} */ (section.querySelector("[data-all]"));
    this.says = /** @type {HTMLElement} */ (section.querySelector("[data-says-of-files]"));
    this.table = /** @type {HTMLTableElement} */ (section.querySelector("table"));
    this.button.addEventListener("click", () => this.list());
  }

  async list() {
    this.button.disabled = true;
    this.says.classList.remove("error");
    this.says.textContent = "Asking its machine…";
    try {
      this.show(await rest("GET", `trials/${this.trial}/output-files/${this.attempt() ? `?attempt=${this.attempt()}` : ""}`));
    } catch (error) {
      this.table.hidden = this.all.hidden = true;
      this.says.classList.add("error");
      this.says.textContent = error instanceof RestError ? error.sentences : String(error);
    }
    this.button.disabled = false;
    this.button.textContent = "List again";
  }

  /** @param {Listing} listing */
  show(listing) {
    const base = `/api/v1/trials/${this.trial}/output-files`;
    const count = listing.files.length;
    const words = [count === 0 ? "Nothing is in it." : `${count.toLocaleString()} ${count === 1 ? "file" : "files"}, ${
      byteSize(listing.files.reduce((sum, file) => sum + file.size, 0))}.`];
    if (listing.cut) words.push("There are more files; the server lists only some of them.");
    if (listing.left_out) {
      words.push(`${listing.left_out.toLocaleString()} ${listing.left_out === 1 ? "link or the like is" : "links or the like are"} not shown.`);
    }
    this.says.textContent = words.join(" ");
    this.table.hidden = this.all.hidden = count === 0;
    this.all.href = `${base}/archive/?attempt=${listing.attempt}`;
    this.table.tBodies[0].replaceChildren(...listing.files.map((file) => {
      const row = document.createElement("tr");
      const link = document.createElement("a");
      link.href = `${base}/content/?${new URLSearchParams({ attempt: String(listing.attempt), name: file.name })}`;
      link.download = "";
      link.textContent = file.name;
      const size = cell(byteSize(file.size));
      size.className = "number";
      row.append(cell(link), size, cell(file.modified_at ? moment(file.modified_at) : "–"));
      return row;
    }));
  }
}

/** @param {string | Node} content */
function cell(content) {
  const made = document.createElement("td");
  made.append(content);
  return made;
}
