/** Tags beside a name: each can be taken off, and one more put on. Drawn by templates/dashboard/tags.html at first. */

import { RestError } from "../lib/rest.js";

/** As the server has it. */
const LONGEST_TAG = 64;

export class TagEditor {
  /**
   * @param {HTMLElement} place  of the template, with data-tags; data-editable where this person may change them
   * @param {(tags: string[]) => Promise<any>} save  stores the whole list
   * @param {HTMLElement | null} [opener]  what opens it in place of a button of its own
   */
  constructor(place, save, opener = null) {
    this.place = place;
    this.save = save;
    /** @type {string[]} */
    this.tags = JSON.parse(place.dataset.tags ?? "[]");
    this.editable = place.dataset.editable !== undefined;
    /** @type {HTMLFormElement | null} */
    this.form = null;
    // the template's own where it has one: it may have been clicked already
    /** @type {HTMLButtonElement} */
    this.add = place.querySelector(".tag-add") ?? button("+ tag", "tag-add quiet-button small");
    this.add.setAttribute("aria-label", `Put a tag on ${place.dataset.of}`);
    this.add.addEventListener("click", () => this.open());
    this.problem = document.createElement("span");
    this.problem.className = "error small";
    this.problem.setAttribute("role", "alert");
    this.opener = opener ?? this.add;
    this.draw();
  }

  /** Whether somebody is writing a tag. */
  get isOpen() {
    return this.form !== null;
  }

  /**
   * As they are on the server now.
   * @param {string[]} tags
   */
  show(tags) {
    if (JSON.stringify(tags) === JSON.stringify(this.tags)) return;
    this.tags = tags;
    this.draw();
  }

  draw() {
    const focused = this.place.contains(document.activeElement) ? document.activeElement : null;
    const chips = this.tags.flatMap((tag) => [this.chip(tag), " "]);
    const tail = this.editable ? [this.form ?? (this.opener === this.add ? this.add : "")] : [];
    this.place.replaceChildren(...chips, ...tail, ...(this.problem.textContent ? [" ", this.problem] : []));
    if (focused) /** @type {HTMLElement} */ (this.form?.querySelector("input") ?? this.opener).focus();
  }

  /** @param {string} tag */
  chip(tag) {
    const chip = document.createElement("span");
    chip.className = "tag small";
    const words = document.createElement(this.place.dataset.plain === undefined ? "a" : "span");
    words.textContent = tag;
    if (words instanceof HTMLAnchorElement) words.href = `/?tag=${encodeURIComponent(tag)}`;
    chip.append(words);
    if (this.editable) {
      const off = button("×", "link");
      off.setAttribute("aria-label", `Take the tag ${tag} off ${this.place.dataset.of}`);
      off.addEventListener("click", () => this.store(this.tags.filter((other) => other !== tag)));
      chip.append(off);
    }
    return chip;
  }

  open() {
    const form = document.createElement("form");
    const input = document.createElement("input");
    input.maxLength = LONGEST_TAG;
    input.size = 12;
    input.autocomplete = "off";
    input.setAttribute("list", "known-tags");
    input.setAttribute("aria-label", `New tag of ${this.place.dataset.of}`);
    const put = button("Add", "small");
    put.type = "submit";
    form.className = "tag-form";
    form.append(input, put);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const tag = input.value.trim();
      this.form = null;
      if (tag && !this.tags.includes(tag)) this.store([...this.tags, tag]);
      else this.draw();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    form.addEventListener("focusout", (event) => {
      if (!(event.relatedTarget instanceof Node && this.place.contains(event.relatedTarget)) && !input.value.trim()) this.close();
    });
    this.form = form;
    this.draw();
    input.focus();
  }

  close() {
    if (!this.form) return;
    const focused = this.form.contains(document.activeElement);
    this.form = null;
    this.draw();
    if (focused) this.opener.focus();
  }

  /** @param {string[]} tags */
  async store(tags) {
    const before = this.tags;
    this.form = null;
    this.problem.textContent = "";
    this.tags = tags;
    this.draw();
    this.opener.focus();
    try {
      this.show((await this.save(tags)).tags);
    } catch (error) {
      this.tags = before;
      this.problem.textContent = error instanceof RestError ? error.sentences : String(error);
      this.draw();
    }
  }
}

/**
 * @param {string} words
 * @param {string} name  its classes
 */
function button(words, name) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = name;
  made.textContent = words;
  return made;
}
