/** The experiment file's text: line numbers, marks at lines that are wrong, files that are dropped. */

import { confirmed } from "../ui/confirm.js";

export const text = /** @type {HTMLTextAreaElement} */ (document.getElementById("config"));
const editor = /** @type {HTMLElement} */ (document.getElementById("editor"));
const gutter = /** @type {HTMLElement} */ (document.getElementById("gutter"));
const bands = /** @type {HTMLElement} */ (document.getElementById("bands"));
const LARGEST_FILE = 1_000_000;

let untouched = text.value;
/** @type {(() => void)[]} */
const listeners = [];

/** @param {() => void} listener  called after each change, whoever made it */
export function onChange(listener) {
  listeners.push(listener);
}

/**
 * @param {string} value
 * @param {boolean} typed  whether a person would miss it
 */
export function setText(value, typed) {
  if (text.value !== value) text.value = value;
  if (!typed) untouched = value;
  changed();
}

/** Whether what was typed may go: true where nothing was. */
export async function mayReplace() {
  if (text.value === untouched || text.value.trim() === "") return true;
  return confirmed({ title: "Replace what you typed?", text: "It is not kept anywhere.", action: "Replace it" });
}

/** @param {File} file @param {(words: string) => void} say */
export async function takeFile(file, say) {
  if (file.size > LARGEST_FILE) say(`${file.name} is too large for an experiment file.`);
  else if (await mayReplace()) setText(await file.text(), false);
}

function changed() {
  numberLines();
  clearMarks();
  for (const listener of listeners) listener();
}

function numberLines() {
  const wanted = text.value.split("\n").length;
  while (gutter.childElementCount > wanted) gutter.lastElementChild?.remove();
  while (gutter.childElementCount < wanted) {
    const number = document.createElement("span");
    number.textContent = String(gutter.childElementCount + 1);
    gutter.append(number);
  }
  editor.style.setProperty("--lines", String(Math.max(wanted, 10)));
  follow();
}

function follow() {
  gutter.scrollTop = text.scrollTop;
  bands.style.setProperty("transform", `translateY(${-text.scrollTop}px)`);
}

export function clearMarks() {
  for (const number of gutter.querySelectorAll(".wrong")) {
    number.classList.remove("wrong");
    number.removeAttribute("title");
  }
  bands.replaceChildren();
  text.removeAttribute("aria-invalid");
}

/** @param {number} line  from 1 @param {string} words */
export function mark(line, words) {
  const number = gutter.children[line - 1];
  if (!(number instanceof HTMLElement)) return;
  number.classList.add("wrong");
  number.title = words;
  const band = document.createElement("div");
  band.style.setProperty("top", `${number.offsetTop}px`);
  band.style.setProperty("height", `${number.offsetHeight}px`);
  bands.append(band);
  text.setAttribute("aria-invalid", "true");
}

/** Select a line and bring it into sight. @param {number} line  from 1 */
export function goToLine(line) {
  const lines = text.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  const height = text.scrollHeight / lines.length;
  if ((line - 1) * height < text.scrollTop || line * height > text.scrollTop + text.clientHeight) {
    text.scrollTop = Math.max(0, (line - 4) * height);
  }
}

/** @param {(words: string) => void} say */
export function startEditor(say) {
  text.addEventListener("input", changed);
  text.addEventListener("scroll", follow);
  text.addEventListener("dragover", (event) => event.preventDefault());
  text.addEventListener("drop", (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return; // text that is dragged about
    event.preventDefault();
    takeFile(file, say);
  });
  numberLines();
}
