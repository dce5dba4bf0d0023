/** The search space as rows, as JSON, and as sample points. */

import { exactNumber, readExact, WouldBeRounded } from "../lib/exact_json.js";
import { rest, RestError } from "../lib/rest.js";
import { digits } from "../lib/formats.js";
import { breaking } from "../lib/names.js";
import { findInList } from "../ui/find_in_list.js";
import { change, onValues } from "./config_fields.js";

/** @typedef {{_type: string, _value: any}} Parameter */
/** @typedef {Record<string, Parameter>} Space */

const section = /** @type {HTMLElement} */ (document.getElementById("space"));
const note = /** @type {HTMLElement} */ (document.getElementById("space-note"));
const editor = /** @type {HTMLElement} */ (document.getElementById("space-editor"));
const rows = /** @type {HTMLElement} */ (document.getElementById("space-rows"));
const json = /** @type {HTMLTextAreaElement} */ (document.getElementById("space-json"));
const points = /** @type {HTMLElement} */ (document.getElementById("space-points"));
const inline = /** @type {HTMLButtonElement} */ (document.getElementById("space-inline"));
const typeOptions = /** @type {HTMLTemplateElement} */ (document.getElementById("space-types"));
/** How many points the table shows, and how many are drawn into each row. */
const SHOWN = 6;
const DRAWN = 60;
const LARGEST_SEED = 2 ** 31;

/** Names of the values of each type; "options" is a list of whatever length. @type {Record<string, string[]>} */
const VALUES = {
  choice: ["options"], randint: ["from", "below"], uniform: ["low", "high"], quniform: ["low", "high", "step"],
  loguniform: ["low", "high"], qloguniform: ["low", "high", "step"], normal: ["mean", "deviation"],
  qnormal: ["mean", "deviation", "step"], lognormal: ["mean of the logarithm", "its deviation"],
  qlognormal: ["mean of the logarithm", "its deviation", "step"],
};
/** What a parameter begins with when its type is chosen. @type {Record<string, any[]>} */
const BEGINNINGS = {
  choice: ["a", "b"], randint: [1, 10], uniform: [0, 1], quniform: [0, 1, 0.1], loguniform: [0.0001, 0.1],
  qloguniform: [1, 1000, 1], normal: [0, 1], qnormal: [0, 1, 0.5], lognormal: [0, 1], qlognormal: [0, 1, 0.5],
};

/** @type {Space} */
let space = {};
let seed = 0;
/** The newest question for points; answers to others are not shown. */
let asked = 0;

/** Set the space by hand: into the text, from where it comes back. @param {Space} next */
function write(next) {
  space = next;
  json.value = pretty(space);
  change({ searchSpace: Object.keys(next).length ? next : null, searchSpaceFile: null });
  sample();
}

/** @param {Space} value */
function pretty(value) {
  const lines = Object.entries(value).map(([name, each]) => `  ${JSON.stringify(name)}: ${JSON.stringify(each, null, 1).replace(/\n\s*/g, " ")}`);
  return lines.length ? `{\n${lines.join(",\n")}\n}` : "{}";
}

// --- the rows --------------------------------------------------------------------------------

function drawRows() {
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.place : undefined;
  rows.replaceChildren(...Object.entries(space).map(([name, parameter], index) => row(name, parameter, index)));
  if (focused) /** @type {HTMLElement | null} */ (rows.querySelector(`[data-place="${focused}"]`))?.focus();
}

/**
 * One parameter. Its handlers ask for its name and value when something happens: rows are not drawn anew while
 * somebody goes through them.
 * @param {string} name @param {Parameter} parameter @param {number} index
 */
function row(name, parameter, index) {
  const group = element("div", "space-row");
  group.setAttribute("role", "group");
  call(group, name);
  const naming = field("name", name, `${index}-name`);
  naming.label.classList.add("naming");
  naming.input.addEventListener("change", () => rename(group, naming.input.value.trim()));
  const kind = element("label", "");
  const select = document.createElement("select");
  select.append(typeOptions.content.cloneNode(true));
  if (![...select.options].some((option) => option.value === parameter?._type)) select.append(new Option(String(parameter?._type)));
  select.value = String(parameter?._type);
  select.dataset.place = `${index}-type`;
  select.addEventListener("change", () => {
    replace(group, { _type: select.value, _value: BEGINNINGS[select.value] ?? [] });
    drawRows();
  });
  kind.append(words("type"), select);
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "quiet-button";
  remove.textContent = "✕";
  remove.setAttribute("aria-label", `Remove ${name}`);
  remove.title = "Remove";
  remove.addEventListener("click", () => {
    const { [nameOf(group)]: _, ...left } = space;
    write(left);
    drawRows();
    document.getElementById("space-add")?.focus();
  });
  const strip = element("span", "strip");
  strip.setAttribute("aria-hidden", "true");
  group.append(naming.label, kind, ...valueFields(group, parameter, index), strip, remove, element("p", "error"));
  return group;
}

/** @param {HTMLElement} group */
const nameOf = (group) => group.dataset.parameter ?? "";

/** @param {HTMLElement} group @param {string} name */
function call(group, name) {
  group.dataset.parameter = name;
  group.setAttribute("aria-label", `Parameter ${name}`);
  group.querySelector("button")?.setAttribute("aria-label", `Remove ${name}`);
}

/** @param {HTMLElement} group @param {Parameter} parameter @param {number} index */
function valueFields(group, parameter, index) {
  const value = parameter?._value;
  if (parameter?._type === "choice" || !VALUES[parameter?._type ?? ""] || !Array.isArray(value)) {
    return [optionsField(group, parameter, index)];
  }
  return (VALUES[parameter._type] ?? []).map((label, at) => {
    const { label: whole, input } = field(label, value[at] === undefined ? "" : String(value[at]), `${index}-${at}`);
    input.inputMode = "decimal";
    input.classList.add("short");
    input.addEventListener("change", () => take(input, group, () => {
      const next = [.../** @type {Parameter} */ (space[nameOf(group)])._value];
      const written = input.value.trim();
      next[at] = written !== "" && Number.isFinite(Number(written)) ? exactNumber(written) : input.value;
      return next;
    }));
    return whole;
  });
}

/**
 * Puts what was written into the parameter, or says what is wrong with it.
 * @param {HTMLElement} input @param {HTMLElement} group @param {() => unknown} read  throws SyntaxError
 */
function take(input, group, read) {
  let value;
  try {
    value = read();
  } catch (error) {
    input.setAttribute("aria-invalid", "true");
    say(nameOf(group), error instanceof WouldBeRounded ? error.message : "This is not a JSON list.");
    return;
  }
  replace(group, { .../** @type {Parameter} */ (space[nameOf(group)]), _value: value });
}

/** Options that are plain words and numbers stand with commas between; others, and nested choices, as JSON. @param {HTMLElement} group @param {Parameter} parameter @param {number} index */
function optionsField(group, parameter, index) {
  const value = parameter?._value;
  const isPlain = Array.isArray(value) && value.every(isPlainOption);
  const isNested = Array.isArray(value) && value.some((each) => typeof each === "object" && each !== null);
  const label = element("label", "options");
  label.append(words(isNested ? "options, some with parameters of their own (JSON)" : isPlain ? "options, with commas between" : "options (JSON)"));
  const input = document.createElement(isNested ? "textarea" : "input");
  input.value = isPlain ? value.join(", ") : isNested ? `[\n${value.map((/** @type {unknown} */ each) => `  ${JSON.stringify(each)}`).join(",\n")}\n]` : JSON.stringify(value ?? null);
  if (input instanceof HTMLTextAreaElement) input.rows = Math.min(8, value.length + 2);
  input.dataset.place = `${index}-options`;
  input.spellcheck = false;
  input.addEventListener("change", () => take(input, group, () => optionsOf(input.value, isPlain)));
  label.append(input);
  return label;
}

/** @param {unknown} option */
function isPlainOption(option) {
  if (typeof option === "number") return true;
  return typeof option === "string" && option !== "" && option.trim() === option && !/[,[\]{}"]/.test(option) && Number.isNaN(Number(option));
}

/** Throws SyntaxError. @param {string} written @param {boolean} isPlain @returns {unknown} */
function optionsOf(written, isPlain) {
  const text = written.trim();
  if (isPlain && !text.startsWith("[")) {
    return text.split(",").map((each) => each.trim()).filter((each) => each !== "").map((each) => (Number.isNaN(Number(each)) ? each : exactNumber(each)));
  }
  return readExact(text);
}

/** @param {string} label @param {string} value @param {string} place */
function field(label, value, place) {
  const whole = element("label", "");
  const input = document.createElement("input");
  input.value = value;
  input.autocomplete = "off";
  input.spellcheck = false;
  input.dataset.place = place;
  whole.append(words(label), input);
  return { label: whole, input };
}

/** @param {HTMLElement} group @param {string} next */
function rename(group, next) {
  const name = nameOf(group);
  if (!next || (next !== name && next in space)) {
    say(name, next ? `There is a parameter ${next} already.` : "A parameter needs a name.");
    return;
  }
  call(group, next);
  write(Object.fromEntries(Object.entries(space).map(([key, value]) => [key === name ? next : key, value])));
}

/** @param {HTMLElement} group @param {Parameter} parameter */
function replace(group, parameter) {
  write({ ...space, [nameOf(group)]: parameter });
}

function add() {
  const find = /** @type {HTMLInputElement} */ (document.getElementById("space-find"));
  find.value = ""; // the new row has to be seen
  let number = Object.keys(space).length + 1;
  while (`parameter_${number}` in space) number += 1;
  const name = `parameter_${number}`;
  write({ ...space, [name]: { _type: "uniform", _value: [0, 1] } });
  drawRows();
  const input = /** @type {HTMLInputElement | null} */ (rows.lastElementChild?.querySelector("input"));
  input?.focus();
  input?.select();
}

// --- points ----------------------------------------------------------------------------------

async function sample() {
  asked += 1;
  const mine = asked;
  for (const place of rows.querySelectorAll(".error")) place.textContent = "";
  if (!Object.keys(space).length) {
    points.replaceChildren();
    return;
  }
  try {
    const answer = await rest("POST", "experiments/sampled-points/", { search_space: space, count: DRAWN, seed });
    if (mine !== asked) return;
    points.replaceChildren(table(answer.points.slice(0, SHOWN)));
    for (const each of /** @type {NodeListOf<HTMLElement>} */ (rows.querySelectorAll(".space-row"))) {
      const name = each.dataset.parameter ?? "";
      each.querySelector(".strip")?.replaceChildren(strip(answer.points.map((/** @type {any} */ point) => point[name]), space[name]?._type ?? ""));
    }
    for (const invalid of rows.querySelectorAll("[aria-invalid]")) invalid.removeAttribute("aria-invalid");
  } catch (error) {
    if (mine !== asked || !(error instanceof RestError)) return;
    points.replaceChildren();
    for (const each of error.errors) showSpaceError(each.field.replace(/^search_space\.?/, ""), each.message);
  }
}

/** An error of the search space at its row. @param {string} path  below the space @param {string} message */
export function showSpaceError(path, message) {
  const name = Object.keys(space).find((each) => path === each || path.startsWith(`${each}.`) || path.startsWith(`${each}[`));
  if (name === undefined) points.textContent = message;
  else say(name, message);
}

/** @param {string} name @param {string} message */
function say(name, message) {
  const place = [.../** @type {NodeListOf<HTMLElement>} */ (rows.querySelectorAll(".space-row"))].find((each) => each.dataset.parameter === name);
  const error = place?.querySelector(".error");
  if (error) error.textContent = message;
}

/** @param {Record<string, unknown>[]} some */
function table(some) {
  const names = Object.keys(space);
  const made = document.createElement("table");
  const head = made.createTHead().insertRow();
  for (const name of names) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.append(...breaking(name));
    cell.className = some.every((point) => typeof point[name] === "number") ? "breaks number" : "breaks";
    head.append(cell);
  }
  const body = made.createTBody();
  for (const point of some) {
    const line = body.insertRow();
    for (const name of names) {
      const value = point[name];
      const cell = line.insertCell();
      cell.textContent = typeof value === "number" ? digits(value) : typeof value === "string" ? value : JSON.stringify(value);
      if (typeof value === "number") cell.className = "number";
    }
  }
  return made;
}

/** A stroke for each point, on the scale of the type. @param {unknown[]} values @param {string} type */
function strip(values, type) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const numbers = /** @type {number[]} */ (values.filter((value) => typeof value === "number"));
  if (!numbers.length || numbers.length < values.length) return svg;
  const scaled = numbers.map((value) => (type.includes("log") ? Math.log(value) : value));
  const low = Math.min(...scaled);
  const span = Math.max(...scaled) - low || 1;
  svg.setAttribute("viewBox", "-2 0 104 12");
  svg.setAttribute("preserveAspectRatio", "none");
  for (const value of scaled) {
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const at = String((100 * (value - low)) / span);
    mark.setAttribute("x1", at);
    mark.setAttribute("x2", at);
    mark.setAttribute("y1", "1");
    mark.setAttribute("y2", "11");
    svg.append(mark);
  }
  return svg;
}

/** @param {string} tag @param {string} name */
function element(tag, name) {
  const made = document.createElement(tag);
  made.className = name;
  return made;
}

/** @param {string} text */
function words(text) {
  const made = document.createElement("span");
  made.textContent = text;
  return made;
}

/** @param {() => Promise<Space | null>} readFile  the space out of the file that the config names; null after saying why not */
export function startSpace(readFile) {
  section.hidden = false;
  onValues((values) => {
    const file = values?.searchSpaceFile;
    const isGenerated = values?.useAnnotation === true;
    note.textContent = values === null ? "It follows when the experiment file can be read as NNI's v2 form."
      : isGenerated ? "It is made from the annotations in the code when you check or launch."
        : file ? `It is in the file ${file}, which is read when you check or launch.`
          : values.searchSpace ? "" : "There is none yet: add a parameter.";
    inline.hidden = isGenerated || !file;
    editor.hidden = values === null || isGenerated || Boolean(file);
    if (values === null || isGenerated || file) return;
    const found = values.searchSpace && typeof values.searchSpace === "object" && !Array.isArray(values.searchSpace) ? values.searchSpace : {};
    if (JSON.stringify(found) === JSON.stringify(space) && rows.childElementCount === Object.keys(space).length) return;
    space = found;
    json.value = pretty(space);
    json.removeAttribute("aria-invalid");
    drawRows();
    sample();
  });
  findInList(/** @type {HTMLInputElement} */ (document.getElementById("space-find")));
  document.getElementById("space-add")?.addEventListener("click", add);
  document.getElementById("space-again")?.addEventListener("click", () => {
    seed = Math.floor(Math.random() * LARGEST_SEED);
    sample();
  });
  json.addEventListener("change", () => {
    try {
      const read = readExact(json.value);
      if (typeof read !== "object" || read === null || Array.isArray(read)) throw new SyntaxError("It must be an object of names and parameters.");
      json.removeAttribute("aria-invalid");
      write(read);
      drawRows();
    } catch (error) {
      json.closest("details")?.setAttribute("open", "");
      json.setAttribute("aria-invalid", "true");
      points.textContent = `The JSON cannot be read: ${error instanceof Error ? error.message : error}`;
    }
  });
  inline.addEventListener("click", async () => {
    try {
      const read = await readFile();
      if (read) await change({ searchSpace: read, searchSpaceFile: null });
    } catch (error) {
      points.textContent = String(error instanceof Error ? error.message : error);
    }
  });
}
