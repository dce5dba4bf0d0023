/** Notes in Markdown, which the server draws: templates/dashboard/notes.html. */

import { rest } from "../lib/rest.js";
import { showError } from "./action_error.js";
import { refreshParts } from "./refreshed_parts.js";

/** Listens on the document, because the part is replaced after each change. */
export function startNotes() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("#notes [data-write], #notes [data-leave]") : null;
    if (!(button instanceof HTMLElement)) return;
    if (button.dataset.write !== undefined) open();
    else close();
  });
  document.addEventListener("keydown", (event) => {
    const form = document.getElementById("notes-form");
    if (!form?.contains(/** @type {Node} */ (event.target))) return;
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) /** @type {HTMLFormElement} */ (form).requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    if (!(event.target instanceof HTMLFormElement) || event.target.id !== "notes-form") return;
    event.preventDefault();
    save(event.target);
  });
}

/** @param {boolean} isOpen */
function toggle(isOpen) {
  const place = /** @type {HTMLElement} */ (document.getElementById("notes"));
  const button = /** @type {HTMLElement} */ (place.querySelector("[data-write]"));
  /** @type {HTMLElement} */ (place.querySelector("form")).hidden = !isOpen;
  /** @type {HTMLElement} */ (place.querySelector(".written")).hidden = isOpen;
  button.setAttribute("aria-expanded", String(isOpen));
  button.hidden = isOpen;
  return { place, button };
}

function open() {
  const { place } = toggle(true);
  /** @type {HTMLTextAreaElement} */ (place.querySelector("textarea")).focus();
}

/** What was typed and not stored is taken back. */
function close() {
  const { place, button } = toggle(false);
  /** @type {HTMLFormElement} */ (place.querySelector("form")).reset();
  showError(null);
  button.focus();
}

/** @param {HTMLFormElement} form */
async function save(form) {
  const place = /** @type {HTMLElement} */ (document.getElementById("notes"));
  const submit = /** @type {HTMLButtonElement} */ (form.querySelector("[type=submit]"));
  submit.disabled = true;
  try {
    const text = /** @type {HTMLTextAreaElement} */ (form.querySelector("textarea")).value;
    await rest("PATCH", place.dataset.path ?? "", { [place.dataset.field ?? ""]: text });
    showError(null);
    await refreshParts(["notes"]);
    document.querySelector("#notes [data-write]")?.focus();
  } catch (error) {
    submit.disabled = false;
    showError(error, submit);
  }
}
