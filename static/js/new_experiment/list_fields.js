/**
 * Fields of the form that hold a list: texts or objects, one a line, or what is ticked. `data-list` says which: "text",
 * "json" (each line an object) or "choice" (a group of boxes).
 */

import { readExact } from "../lib/exact_json.js";

/** @typedef {HTMLTextAreaElement | HTMLFieldSetElement} ListField */

/** @param {Element} field @returns {field is ListField} */
export function isList(field) {
  return field instanceof HTMLElement && field.dataset.list !== undefined;
}

/** @param {ListField} field @param {unknown} value  as the file has it */
export function showList(field, value) {
  const items = value === undefined ? [] : Array.isArray(value) ? value : [value];
  if (field instanceof HTMLFieldSetElement) tick(field, items.map(String));
  else field.value = items.map((item) => (field.dataset.list === "text" ? String(item) : JSON.stringify(item))).join("\n");
}

/** The list as it stands in the form, null where it is empty. Throws SyntaxError. @param {ListField} field */
export function listOf(field) {
  const items = field instanceof HTMLFieldSetElement ? boxes(field).filter((box) => box.checked).map((box) => box.value)
    : field.value.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => (field.dataset.list === "text" ? line : object(line)));
  return items.length ? items : null;
}

/** @param {string} line */
function object(line) {
  const found = readExact(line);
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new SyntaxError("no object");
  return found;
}

/** @param {HTMLFieldSetElement} field */
const boxes = (field) => /** @type {HTMLInputElement[]} */ ([...field.querySelectorAll("input[type=checkbox]")]);

/**
 * What the file names and the form does not offer, gets a box of its own.
 * @param {HTMLFieldSetElement} field @param {string[]} wanted
 */
function tick(field, wanted) {
  const offered = new Set(boxes(field).map((box) => box.value));
  const list = field.querySelector("ul");
  for (const value of wanted.filter((each) => !offered.has(each))) {
    const item = document.createElement("li");
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.value = value;
    label.append(box, ` ${value}`);
    item.append(label);
    list?.prepend(item);
  }
  for (const box of boxes(field)) box.checked = wanted.includes(box.value);
}
