/** Exchanges the tuner, or its arguments, while the experiment goes on. What is wrong the server says. */

import { showError } from "../../ui/action_error.js";
import { JsonText, rest, RestError } from "../../lib/rest.js";

/** @typedef {{name: string, class_args: Record<string, unknown>}} Tuner */

/**
 * @param {string} id  of the experiment
 * @param {(now: any) => void} show  the experiment as it is after the change
 */
export function startTunerDialog(id, show) {
  const dialog = document.getElementById("tuner-dialog");
  const opener = document.querySelector('[data-open="tuner-dialog"]');
  if (!(dialog instanceof HTMLDialogElement) || !(opener instanceof HTMLElement)) return;
  const choice = /** @type {HTMLSelectElement} */ (dialog.querySelector("select"));
  const input = /** @type {HTMLInputElement} */ (dialog.querySelector("input"));
  const complaint = /** @type {HTMLElement} */ (dialog.querySelector(".error"));
  const button = /** @type {HTMLButtonElement} */ (dialog.querySelector("[data-save]"));
  /** The tuner that it had when this was opened. @type {Tuner} */
  let stored;
  /** Arguments as they are written. */
  let exact = input.dataset.exact || "{}";

  /** @param {string} words  "" for none */
  function complain(words) {
    complaint.textContent = words;
    complaint.hidden = words === "";
    if (words) {
      input.setAttribute("aria-invalid", "true");
      input.focus();
    } else input.removeAttribute("aria-invalid");
  }

  /** The arguments that the chosen tuner knows; those that are written are the present one's alone. */
  function chosen() {
    const names = choice.selectedOptions[0]?.dataset.arguments ?? "";
    /** @type {HTMLElement} */ (document.getElementById("tuner-arguments")).textContent = names ? `JSON, of: ${names}` : "It has none.";
    input.value = choice.value === stored.name ? written(stored.class_args, exact) : "";
    complain("");
  }

  async function exchange() {
    const text = input.value.trim() || "{}";
    let given;
    try {
      given = JSON.parse(text);
    } catch {
      given = null;
    }
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      complain('The arguments are not a JSON object. Write them like {"seed": 3}, or leave them out.');
      return;
    }
    complain("");
    button.disabled = true;
    try {
      show(await rest("PATCH", `experiments/${id}/`, JsonText.ofObject({
        tuner: JsonText.ofObject({ name: new JsonText(JSON.stringify(choice.value)), class_args: new JsonText(text) }) })));
      exact = text;
      /** @type {HTMLDialogElement} */ (dialog).close();
      /** @type {HTMLElement} */ (opener).focus();
    } catch (error) {
      complain(error instanceof RestError ? error.errors.map(({ field, message }) => `${named(field)}${message}`).join(" ") : String(error));
    } finally {
      button.disabled = false;
    }
  }

  opener.addEventListener("click", async () => {
    try {
      stored = (await rest("GET", `experiments/${id}/`)).tuner; // somebody may have exchanged it meanwhile
    } catch (error) {
      showError(error, opener);
      return;
    }
    choice.value = stored.name;
    chosen();
    dialog.showModal();
  });
  choice.addEventListener("change", chosen);
  dialog.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    exchange();
  });
}

/** @param {Record<string, unknown> | undefined} given @param {string} exact  the same, unless somebody has changed it since */
function written(given, exact) {
  if (!given || !Object.keys(given).length) return "";
  return JSON.stringify(JSON.parse(exact)) === JSON.stringify(given) ? exact : JSON.stringify(given, null, 1).replaceAll(/\n\s*/g, " ").replaceAll(/([{[]) | ([}\]])/g, "$1$2");
}

/** Which argument is meant. @param {string} field */
function named(field) {
  const name = /^tuner\.classArgs\.(.+)$/.exec(field)?.[1];
  return name ? `${name}: ` : "";
}
