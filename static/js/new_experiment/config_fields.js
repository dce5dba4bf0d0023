/**
 * The form beside the text. The server reads fields out of the text and writes them into it, by the reader that
 * launches: the text stays the only truth. One question at a time; answers to an older text are not used.
 */

import { exactNumber, readExact, WouldBeRounded } from "../lib/exact_json.js";
import { rest, RestError } from "../lib/rest.js";
import { findInList } from "../ui/find_in_list.js";
import { onChange, setText, text } from "./editor.js";
import { isList, listOf, showList } from "./list_fields.js";

/** @typedef {Record<string, any>} Values */

const panel = /** @type {HTMLFieldSetElement} */ (document.getElementById("fields"));
const note = /** @type {HTMLElement} */ (document.getElementById("fields-note"));
const convert = /** @type {HTMLButtonElement} */ (document.getElementById("convert"));
const cluster = /** @type {HTMLSelectElement} */ (document.getElementById("cluster"));
/** Milliseconds without typing after which the text is read. */
const PAUSE = 350;

/** @type {Values} */
let values = {};
/** @type {((values: Values | null, problem: string) => void)[]} */
const listeners = [];
/** The questions, one behind the other. @type {Promise<unknown>} */
let line = Promise.resolve();
/** Changes whose turn has not come: what is known is older than what people see. */
let waiting = 0;
let timer = 0;
let writing = false;
/** What the last answer says of the text. */
let aboutText = "";

/** @param {(values: Values | null, problem: string) => void} listener  null: the text cannot be read, and why */
export function onValues(listener) {
  listeners.push(listener);
}

/**
 * Change fields of the text, when those before were changed.
 * @param {Values | (() => Values)} changes  null takes a field out; a function is asked when its turn has come
 */
export function change(changes) {
  waiting += 1;
  line = line.then(() => {
    waiting -= 1;
    return ask({ changes: typeof changes === "function" ? changes() : changes });
  });
  return line;
}

/** When everything that was changed stands in the text. */
export async function settled() {
  for (let last = null; last !== line;) {
    last = line;
    await last;
  }
}

/** @param {{changes?: Values, convert?: boolean}} more */
async function ask(more) {
  const asked = text.value;
  try {
    const answer = await rest("POST", "experiments/config-fields/", { config: asked, ...more });
    if (text.value !== asked) {
      // somebody typed on: what was to be changed is changed in what stands there now
      if (more.changes) await ask(more);
      return;
    }
    values = answer.values;
    writing = true;
    if (answer.config !== asked) setText(answer.config, true);
    writing = false;
    if (waiting === 0) tell(values, answer.notes.join(" "));
  } catch (error) {
    if (text.value !== asked && !more.changes) return;
    const place = error instanceof RestError ? error.errors.map((each) => {
      const at = /** @type {{line?: number | null}} */ (each).line;
      return `${at ? `Line ${at}: ` : ""}${each.field ? `${each.field} ` : ""}${each.message}`;
    }).join(" ") : String(error);
    tell(null, place);
  }
}

/** @param {Values | null} found @param {string} words */
function tell(found, words) {
  const isOld = found === null && words.includes("v1 form");
  aboutText = found ? words : isOld ? "The file has NNI's v1 form. It can be launched as it is; converted to v2, its fields can be edited here."
    : `The fields cannot be read from the text: ${words}`;
  showNote();
  convert.hidden = !isOld;
  for (const field of fields()) field.disabled = found === null;
  if (found) fill(found);
  for (const listener of listeners) listener(found, words);
}

/** @typedef {HTMLInputElement | HTMLSelectElement} OneField  of one value */

const fields = () => /** @type {NodeListOf<OneField | import("./list_fields.js").ListField>} */ (panel.querySelectorAll("[data-field]"));

/** What is wrong with a field, where it is not its form. @type {Map<Element, string>} */
const troubles = new Map();

/** Fields whose content cannot be taken into the text come first: an answer about the text may come after they were left. */
function showNote() {
  const wrong = [...fields()].filter(isWrong).map((field) => troubles.get(field) ?? (isList(field)
    ? 'Each line is a JSON object, such as {"learning_rate": 0.01, "layers": 4}.'
    : 'Arguments are a JSON object, such as {"seed": 3}.'));
  note.textContent = [...new Set(wrong), aboutText].filter(Boolean).join(" ");
}

/** @param {Element} field */
const isWrong = (field) => field.getAttribute("aria-invalid") === "true";

/** @param {Values} found */
function fill(found) {
  for (const field of fields()) {
    if (isWrong(field)) continue; // what a person wrote stays there to be mended
    const name = field.dataset.field ?? "";
    if (isList(field)) {
      if (field !== document.activeElement) showList(field, found[name]);
      continue;
    }
    if (field === document.activeElement && field.value !== "" && !(field instanceof HTMLSelectElement)) continue;
    if (name === "optimize_mode") field.value = found["tuner.classArgs"]?.optimize_mode ?? "";
    else if (name.endsWith(".classArgs")) field.value = json(without(found[name], name === "tuner.classArgs" ? "optimize_mode" : ""));
    else if (name === "replicates") field.value = String(replicatesOf(found) ?? "");
    else if (field instanceof HTMLSelectElement) choose(field, found[name]);
    else field.value = found[name] === undefined ? "" : String(found[name]);
  }
  hint("tuner");
  hint("assessor");
  if (found.cluster !== undefined || cluster.value === "" || found.trainingService !== undefined) choose(cluster, found.cluster);
}

/** Their number: of the short form, or of the long one. @param {Values} found */
const replicatesOf = (found) => found.replicates?.n ?? found.replicates?.seeds?.length ?? found.replicates;

/** Choose what the file says, in whatever case; what is none of the options stays as the file says. @param {HTMLSelectElement} select @param {unknown} value */
function choose(select, value) {
  const wanted = String(value ?? "").toLowerCase();
  const option = [...select.options].find((each) => each.value.toLowerCase() === wanted);
  select.value = option?.value ?? "";
}

/** @param {Values | undefined} object @param {string} key */
function without(object, key) {
  const rest = { ...object };
  delete rest[key];
  return rest;
}

/** @param {Values} value */
const json = (value) => (Object.keys(value).length ? JSON.stringify(value) : "");

/** @param {"tuner" | "assessor"} kind */
function hint(kind) {
  const select = /** @type {HTMLSelectElement} */ (document.getElementById(`f-${kind}`));
  const words = select.selectedOptions[0]?.dataset.arguments ?? "";
  const place = document.getElementById(`f-${kind}-hint`);
  if (place) place.textContent = words ? `JSON, of: ${words}` : "";
}

/**
 * What a field's change means for the text. Throws SyntaxError.
 * @param {OneField | import("./list_fields.js").ListField} field @returns {() => Values}
 */
function changesOf(field) {
  const name = field.dataset.field ?? "";
  if (isList(field)) {
    const items = listOf(field);
    return () => ({ [name]: items });
  }
  const written = field.value.trim();
  // the arguments are one field of the text and two of the form
  const others = () => without(values["tuner.classArgs"], "optimize_mode");
  const mode = () => ({ optimize_mode: values["tuner.classArgs"]?.optimize_mode });
  if (name === "optimize_mode") {
    return () => ({ "tuner.classArgs": filled({ ...others(), optimize_mode: written || undefined }) });
  }
  if (name.endsWith(".classArgs")) {
    const given = written ? readExact(written) : {};
    if (typeof given !== "object" || given === null || Array.isArray(given)) throw new SyntaxError("no object");
    return () => ({ [name]: filled({ ...given, ...(name === "tuner.classArgs" ? mode() : {}) }) });
  }
  // arguments belong to one algorithm; only the direction is everybody's
  if (name === "assessor.name") return () => ({ [name]: written || null, "assessor.classArgs": null });
  if (name === "tuner.name") return () => ({ [name]: written || null, "tuner.classArgs": filled(mode()) });
  if (name === "replicates" && written && typeof values.replicates === "object") {
    return () => ({ replicates: { ...values.replicates, n: exactNumber(written) } });
  }
  const isNumber = field.type === "number" && Number.isFinite(Number(written));
  return () => ({ [name]: written ? (isNumber ? exactNumber(written) : written) : null });
}

/** @param {Values} object */
function filled(object) {
  const left = Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
  return Object.keys(left).length ? left : null;
}

export function startFields() {
  for (const find of panel.querySelectorAll("[data-find-in]")) findInList(/** @type {HTMLInputElement} */ (find));
  for (const field of fields()) {
    field.addEventListener("change", () => {
      try {
        field.removeAttribute("aria-invalid");
        troubles.delete(field);
        change(changesOf(field));
      } catch (error) {
        if (error instanceof WouldBeRounded) troubles.set(field, error.message);
        field.setAttribute("aria-invalid", "true");
        showNote();
      }
    });
  }
  cluster.addEventListener("change", () => {
    if (cluster.value) change({ cluster: cluster.value, trainingService: null, clusters: null });
    else if (values.cluster !== undefined) change({ cluster: null });
  });
  convert.addEventListener("click", () => {
    line = line.then(() => ask({ convert: true }));
  });
  onChange(() => {
    if (writing) return;
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      line = line.then(() => ask({}));
    }, PAUSE);
  });
  line = line.then(() => ask({}));
}
