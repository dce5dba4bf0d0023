/** Changes the search space while the experiment runs: its JSON is checked by the server, errors stand beside their line. */

import { RestError } from "../../lib/rest.js";

/**
 * @param {(text: string) => Promise<unknown>} save
 * @param {() => Record<string, number>} counts  trials by status, now
 */
export function startSpaceDialog(save, counts) {
  const dialog = document.getElementById("space-dialog");
  const opener = document.querySelector('[data-open="space-dialog"]');
  if (!(dialog instanceof HTMLDialogElement) || !(opener instanceof HTMLElement)) return;
  const text = /** @type {HTMLTextAreaElement} */ (dialog.querySelector("textarea"));
  const gutter = /** @type {HTMLElement} */ (dialog.querySelector(".gutter"));
  const errors = /** @type {HTMLElement} */ (dialog.querySelector(".errors"));
  const button = /** @type {HTMLButtonElement} */ (dialog.querySelector("[data-save]"));
  let stored = text.value;

  /** @param {Set<number>} [wrong]  lines */
  function numberLines(wrong = new Set()) {
    gutter.replaceChildren(...text.value.split("\n").map((_, index) => {
      const number = document.createElement("span");
      number.textContent = String(index + 1);
      number.classList.toggle("wrong", wrong.has(index + 1));
      return number;
    }));
    gutter.scrollTop = text.scrollTop;
  }

  function clearErrors() {
    errors.hidden = true;
    errors.replaceChildren();
    text.removeAttribute("aria-invalid");
    numberLines();
  }

  /** @param {number} line */
  function goTo(line) {
    const lines = text.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  }

  /** @param {any[]} found */
  function showErrors(found) {
    errors.replaceChildren(...found.map((error) => {
      const item = document.createElement("li");
      if (error.line) {
        const place = document.createElement("button");
        place.type = "button";
        place.className = "link";
        place.textContent = `Line ${error.line}`;
        place.addEventListener("click", () => goTo(error.line));
        item.append(place, " ");
      }
      const words = document.createElement("span");
      words.textContent = [error.field, error.message].filter(Boolean).join(" ");
      item.append(words);
      return item;
    }));
    errors.hidden = false;
    text.setAttribute("aria-invalid", "true");
    numberLines(new Set(found.map((error) => error.line).filter(Boolean)));
    const first = found.find((error) => error.line);
    if (first) goTo(first.line);
    else text.focus();
  }

  text.addEventListener("input", () => numberLines());
  text.addEventListener("scroll", () => {
    gutter.scrollTop = text.scrollTop;
  });
  opener.addEventListener("click", () => {
    text.value = stored;
    clearErrors();
    const { RUNNING = 0, WAITING = 0 } = counts();
    const effect = /** @type {HTMLElement} */ (dialog.querySelector("[data-effect]"));
    effect.textContent = RUNNING + WAITING ? `, also the ${RUNNING} running and ${WAITING} waiting ones,` : "";
    dialog.showModal();
    text.focus();
    text.setSelectionRange(0, 0);
  });
  dialog.querySelector("form")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    clearErrors();
    try {
      await save(text.value);
      stored = text.value;
      dialog.close();
      opener.focus();
    } catch (error) {
      showErrors(error instanceof RestError ? error.errors : [{ field: "", message: String(error) }]);
    } finally {
      button.disabled = false;
    }
  });
}
