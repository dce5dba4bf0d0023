/** Ranges on the axes as a form: what a mouse draws on the chart, for keyboards and for exact numbers. */

import { digits } from "../../lib/formats.js";
import { RESULT, UNUSED } from "./parameter_data.js";

export class AxisRanges {
  /**
   * @param {HTMLElement} element
   * @param {import("./parameter_data.js").ParameterData} data
   * @param {() => void} changed
   */
  constructor(element, data, changed) {
    this.element = element;
    this.data = data;
    this.changed = changed;
    element.addEventListener("change", (event) => this.take(/** @type {HTMLElement} */ (event.target)));
  }

  /** @param {string[]} names */
  draw(names) {
    const all = [...names, RESULT];
    const form = JSON.stringify(all.map((name) => [name, this.data.scale(name).options, this.data.scale(name).hasUnused]));
    if (form !== this.form) this.element.replaceChildren(...all.map((name) => this.field(name)));
    this.form = form;
    for (const field of this.element.querySelectorAll("fieldset")) this.show(field);
  }

  /**
   * The range as it is now; what somebody is writing stays.
   * @param {HTMLElement} field
   */
  show(field) {
    const name = field.dataset.name ?? "";
    const scale = this.data.scale(name);
    const range = this.data.ranges.get(name);
    for (const input of field.querySelectorAll("input")) {
      if (input.type === "checkbox") {
        const place = scale.place(input.value === UNUSED ? null : Number(input.value));
        input.checked = !range || (place >= scale.place(range.from) - 1e-6 && place <= scale.place(range.to) + 1e-6);
        continue;
      }
      const end = input.dataset.end === "from" ? "from" : "to";
      input.placeholder = digits(end === "from" ? scale.low : scale.high);
      if (input === document.activeElement || input.hasAttribute("aria-invalid")) continue;
      const value = range?.[end];
      const isOpen = value === undefined || (value !== null && (end === "from" ? value <= scale.low : value >= scale.high));
      input.value = isOpen ? "" : value === null ? UNUSED : String(Number(value.toPrecision(4)));
    }
  }

  /** @param {string} name */
  field(name) {
    const scale = this.data.scale(name);
    const field = document.createElement("fieldset");
    field.dataset.name = name;
    const legend = document.createElement("legend");
    legend.textContent = this.data.title(name);
    field.append(legend);
    if (scale.isCategory) {
      const places = [...scale.options.keys()];
      for (const index of [...(scale.hasUnused ? [null] : []), ...places]) {
        const label = document.createElement("label");
        const box = document.createElement("input");
        box.type = "checkbox";
        box.value = index === null ? UNUSED : String(index);
        label.append(box, ` ${scale.label(index)}`);
        field.append(label);
      }
    } else {
      for (const [end, words] of /** @type {["from" | "to", string][]} */ ([["from", "from"], ["to", "to"]])) {
        const label = document.createElement("label");
        const input = document.createElement("input");
        input.inputMode = "decimal";
        input.dataset.end = end;
        input.size = 8;
        label.append(`${words} `, input);
        field.append(label);
      }
    }
    return field;
  }

  /** @param {HTMLElement} target */
  take(target) {
    const field = /** @type {HTMLElement} */ (target.closest("fieldset"));
    const name = field.dataset.name ?? "";
    const scale = this.data.scale(name);
    if (scale.isCategory) {
      const boxes = /** @type {HTMLInputElement[]} */ ([...field.querySelectorAll("input")]);
      // one range: what lies between the first and the last that are wanted is wanted too
      const wanted = boxes.filter((box) => box.checked);
      const value = (/** @type {HTMLInputElement} */ box) => (box.value === UNUSED ? null : Number(box.value));
      if (wanted.length === 0 || wanted.length === boxes.length) this.data.setRange(name, null);
      else this.data.setRange(name, { from: value(wanted[0]), to: value(wanted[wanted.length - 1]) });
    } else {
      const [from, to] = ["from", "to"].map((end) => /** @type {HTMLInputElement} */ (field.querySelector(`[data-end=${end}]`)));
      const read = (/** @type {HTMLInputElement} */ input, /** @type {number} */ otherwise) => (input.value.trim() === "" ? otherwise
        : input.value.trim() === UNUSED && scale.hasUnused ? null : Number(input.value.replace(",", ".")));
      const range = { from: read(from, scale.low), to: read(to, scale.high) };
      for (const [input, value] of /** @type {[HTMLInputElement, number | null][]} */ ([[from, range.from], [to, range.to]])) {
        if (Number.isNaN(value)) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
      if (Number.isNaN(range.from) || Number.isNaN(range.to)) return;
      this.data.setRange(name, from.value.trim() === "" && to.value.trim() === "" ? null : range);
    }
    this.changed();
  }
}
