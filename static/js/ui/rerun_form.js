/** Asks for parameters of a new trial, beginning with those of another; says what lies outside the search space. */

import { findInList } from "./find_in_list.js";
import { keptCode } from "../lib/rerun_words.js";
import { exactTexts } from "../lib/exact_json.js";
import { JsonText, rest, RestError } from "../lib/rest.js";

/** Pause after the last key before the server is asked what it thinks of the values, in milliseconds. */
const PAUSE = 300;

/** @typedef {{name: string, input: HTMLInputElement | HTMLTextAreaElement, options: string[], original: string, isText: boolean, first: string, note: HTMLElement}} Field */

/**
 * @param {{id: string, sequence_id: number, parameters: Record<string, unknown> | null, variant?: unknown}} trial
 * @param {Record<string, any>} searchSpace
 * @param {{parameters: Record<string, string>, options: Record<string, string[]>}} exact  values of the trial and of
 *   choices, as JSON
 * @returns {Promise<any>} the new trial's document; null where the person kept it as it is
 */
export function askForChanges(trial, searchSpace, exact) {
  const dialog = document.createElement("dialog");
  dialog.className = "wide-dialog";
  dialog.setAttribute("aria-labelledby", "rerun-title");
  const form = document.createElement("form");
  form.className = "rerun";
  form.noValidate = true;
  form.append(words("h2", `Run trial ${trial.sequence_id} with changes`), words("p", "A new trial is queued with these parameters. "
    + `It counts towards the trial limit. Where the limit is reached, it grows by one.${keptCode(trial)}`));
  form.firstElementChild?.setAttribute("id", "rerun-title");
  const given = trial.parameters ?? {};
  const find = document.createElement("input");
  Object.assign(find, { type: "search", placeholder: "find a parameter", autocomplete: "off", spellcheck: false });
  Object.assign(find.dataset, { findIn: "rerun-fields", findWhat: ".rerun-field" });
  find.setAttribute("aria-label", "Find a parameter");
  const list = words("div", "", "rerun-fields");
  list.id = "rerun-fields";
  form.append(find, list);
  const texts = exactTexts(given, exact.parameters);
  const fields = [...new Set([...Object.keys(given), ...Object.keys(searchSpace)])].map((name) => field(name, texts[name] ?? "", exact.options[name] ?? []));
  for (const { name, input, note } of fields) {
    const row = words("div", "", "rerun-field");
    const label = document.createElement("label");
    label.append(words("span", name), words("span", hint(searchSpace[name], exact.options[name]), "quiet small"), input);
    note.className = "note small";
    note.setAttribute("role", "status");
    row.append(label, ...datalist(input, exact.options[name] ?? []), note);
    list.append(row);
  }
  if (fields.length === 0) form.append(words("p", "This trial had no parameters, and the search space has none."));
  const general = words("p", "", "note small");
  const problem = words("p", "", "error small");
  problem.setAttribute("role", "alert");
  problem.hidden = true;
  const keep = words("button", "Cancel");
  /** @type {HTMLButtonElement} */ (keep).type = "button";
  const go = words("button", "Run it", "main");
  const buttons = words("div", "", "acts");
  buttons.append(go, keep);
  form.append(general, problem, buttons);
  dialog.append(form);
  document.body.append(dialog);
  findInList(find);
  dialog.showModal();
  fields[0]?.input.focus();

  /** @type {number | undefined} */
  let timer;
  let asked = 0;

  /** What the server thinks of the values, beside each. */
  async function check() {
    const values = read(fields);
    if (values === null) return;
    asked += 1;
    const mine = asked;
    let notes;
    try {
      notes = await rest("POST", `trials/${trial.id}/actions/check-parameters/`, JsonText.ofObject({ parameters: values }));
    } catch {
      return; // running it says what is wrong
    }
    if (mine !== asked) return; // a later answer is on its way
    for (const { name, note } of fields) {
      const found = notes.filter((/** @type {{field: string}} */ one) => one.field === name || one.field.startsWith(`${name}.`));
      note.textContent = found.map((/** @type {{message: string}} */ one) => `Outside the search space: ${one.message}.`).join(" ");
    }
  }

  form.addEventListener("input", () => {
    problem.hidden = true;
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE);
  });
  keep.addEventListener("click", () => dialog.close());
  return new Promise((resolve) => {
    let outcome = null;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const values = read(fields);
      if (values === null) {
        find.value = ""; // the field may not be among those that are seen
        find.dispatchEvent(new Event("input"));
        /** @type {HTMLElement | null} */ (form.querySelector("[aria-invalid]"))?.focus();
        return;
      }
      /** @type {HTMLButtonElement} */ (go).disabled = true;
      try {
        outcome = await rest("POST", `trials/${trial.id}/actions/rerun/`, JsonText.ofObject({ parameters: values }));
        dialog.close();
      } catch (error) {
        problem.textContent = error instanceof RestError ? error.sentences : String(error);
        problem.hidden = false;
      }
      /** @type {HTMLButtonElement} */ (go).disabled = false;
    });
    dialog.addEventListener("close", () => {
      clearTimeout(timer);
      dialog.remove();
      resolve(outcome);
    });
  });
}

/**
 * @param {string} name
 * @param {string} original  the value as JSON, "" where it has none
 * @param {string[]} options  of a choice, as JSON
 * @returns {Field}
 */
function field(name, original, options) {
  const isLong = original.includes("\n") || /^[[{]/.test(original);
  const input = document.createElement(isLong || original.includes("\\n") ? "textarea" : "input");
  input.name = name;
  input.autocomplete = "off";
  input.spellcheck = false;
  input.value = asShown(original);
  return { name, input, options, original, isText: original.startsWith('"'), first: input.value, note: document.createElement("p") };
}

/** Texts without their quotes. @param {string} json */
const asShown = (json) => (json.startsWith('"') ? JSON.parse(json) : json);

/**
 * The values of all fields, each of the type it had; null where one cannot be read, and beside it why. What was not
 * touched is what it was.
 * @param {Field[]} fields
 */
function read(fields) {
  /** @type {Record<string, JsonText>} */
  const values = {};
  let good = true;
  for (const { name, input, options, original, isText, first, note } of fields) {
    const text = input.value.trim();
    input.removeAttribute("aria-invalid");
    note.textContent = "";
    const option = options.find((one) => asShown(one) === text);
    if (original !== "" && input.value === first) values[name] = new JsonText(original);
    else if (option !== undefined) values[name] = new JsonText(option);
    else if (isText) values[name] = new JsonText(JSON.stringify(input.value));
    else if (text === "") continue; // left out
    else {
      try {
        JSON.parse(text);
        values[name] = new JsonText(text);
      } catch {
        good = false;
        note.textContent = "This is not a value: write a number, true, false, null, a [list], an {object} or a \"text\" in quotes.";
        input.setAttribute("aria-invalid", "true");
      }
    }
  }
  return good ? JsonText.ofObject(values) : null;
}

/** @param {any} space @param {string[] | undefined} options  of a choice, as JSON */
function hint(space, options) {
  if (!space?._type) return ""; // none, or one that only a tuner of the user's own can read
  const value = options ? `[${options.join(", ")}]` : JSON.stringify(space._value);
  return ` ${space._type} ${value && value.length < 80 ? value : ""}`;
}

/**
 * Plain options of a choice, to choose from.
 * @param {HTMLElement} input
 * @param {string[]} options  as JSON
 */
function datalist(input, options) {
  if (!options.length || input instanceof HTMLTextAreaElement) return [];
  const list = document.createElement("datalist");
  list.id = `options-${/** @type {HTMLInputElement} */ (input).name}`;
  list.append(...options.map((one) => new Option("", asShown(one))));
  input.setAttribute("list", list.id);
  return [list];
}

/**
 * @param {string} tag
 * @param {string} text
 * @param {string} [name]  its classes
 * @returns {HTMLElement}
 */
function words(tag, text, name = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
}
