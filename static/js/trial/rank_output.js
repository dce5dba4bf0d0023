/** What one rank of a trial with several nodes has written: asked for when somebody wants to see it, since its machine has it. */

import { byteSize } from "../lib/byte_size.js";
import { rest, RestError } from "../lib/rest.js";

/** @typedef {{rank: number, stream: string, offset: number, size: number, text: string}} Part */

export class RankOutput {
  /**
   * @param {HTMLElement} section
   * @param {string} trial
   * @param {() => number} attempt  the one that is shown
   */
  constructor(section, trial, attempt) {
    this.section = section;
    this.trial = trial;
    this.attempt = attempt;
    this.heading = /** @type {HTMLElement} */ (section.querySelector("h2"));
    this.says = /** @type {HTMLElement} */ (section.querySelector("[data-says-of-rank]"));
    this.text = /** @type {HTMLElement} */ (section.querySelector("pre"));
    // the table with the buttons is replaced while the page lives
    document.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("[data-rank]") : null;
      if (button instanceof HTMLButtonElement) this.ask(button.dataset.rank ?? "0", button.dataset.rankStream ?? "stdout");
    });
  }

  /** @param {string} rank @param {string} stream */
  async ask(rank, stream) {
    this.section.hidden = false;
    this.heading.textContent = `${stream} of rank ${rank}`;
    this.says.classList.remove("error");
    this.says.textContent = "Asking its machine…";
    this.text.textContent = "";
    try {
      this.show(await rest("GET", `trials/${this.trial}/ranks/output/?${new URLSearchParams({ rank, stream, attempt: String(this.attempt()) })}`));
    } catch (error) {
      this.says.classList.add("error");
      this.says.textContent = error instanceof RestError ? error.sentences : String(error);
    }
  }

  /** @param {Part} part */
  show(part) {
    this.says.textContent = part.size === 0 ? "Nothing written." : part.offset ? `The last ${byteSize(part.size - part.offset)} of ${byteSize(part.size)}.` : byteSize(part.size);
    this.text.textContent = part.text;
  }
}
