/**
 * The form of a platform, made of what its config models say: whatever is installed has one, a stranger's too.
 * It changes the trainingService section of the text; the text stays the only truth.
 */

import { change, onValues } from "./config_fields.js";

/**
 * @typedef {{name: string, of_cluster: boolean, type: string, kind: string, is_required: boolean, default: unknown,
 *   choices: string[], description: string, is_secret: boolean, is_inner: boolean}} Field
 */

const select = /** @type {HTMLSelectElement} */ (document.getElementById("f-platform"));
const place = /** @type {HTMLElement} */ (document.getElementById("platform-fields"));
/** @type {Record<string, Field[]>} */
const forms = JSON.parse(document.getElementById("platform-forms")?.textContent ?? "{}");
/** The section as the text has it. @type {Record<string, unknown>} */
let section = {};
let shown = "";

/** Field names in files may be written in any case, with underscores. @param {string} name */
const fold = (name) => name.replaceAll("_", "").toLowerCase();

/** The key by which the section has a field. @param {string} name */
const keyOf = (name) => Object.keys(section).find((key) => fold(key) === fold(name)) ?? name;

/** @param {Field} field @returns {HTMLInputElement | HTMLSelectElement} */
function inputOf(field) {
  if (field.kind === "choice" || field.kind === "boolean") {
    const made = document.createElement("select");
    const options = field.kind === "boolean" ? ["true", "false"] : field.choices;
    made.append(new Option(field.is_required ? "" : `default${field.default === null ? "" : `: ${field.default}`}`, ""));
    for (const option of options) made.append(new Option(option));
    return made;
  }
  const made = document.createElement("input");
  made.autocomplete = "off";
  made.spellcheck = false;
  if (field.kind === "secret") {
    made.type = "password";
    made.autocomplete = "new-password";
  } else if (field.kind === "integer" || field.kind === "number") {
    made.type = "number";
    if (field.kind === "number") made.step = "any";
  }
  const isPlain = field.default !== null && typeof field.default !== "object";
  made.placeholder = field.is_required ? "required" : isPlain ? String(field.default) : field.kind === "json" ? "JSON" : "";
  return made;
}

/** What stands in an input as the text has it; undefined where it is empty. Throws SyntaxError. @param {Field} field @param {string} written */
function valueOf(field, written) {
  if (written === "") return undefined;
  if (field.kind === "boolean") return written === "true";
  if (field.kind === "integer" || field.kind === "number") return Number(written);
  if (field.kind !== "json") return written;
  return JSON.parse(written);
}

/** @param {Field} field @param {number} number */
function row(field, number) {
  const row = document.createElement("div");
  row.className = "field wide";
  const input = inputOf(field);
  input.id = `f-platform-${number}`;
  input.dataset.platformField = field.name;
  input.setAttribute("aria-describedby", `${input.id}-hint`);
  const label = document.createElement("label");
  label.htmlFor = input.id;
  label.textContent = field.name;
  const hint = document.createElement("p");
  hint.id = `${input.id}-hint`;
  hint.className = "quiet small";
  hint.textContent = `${field.description} (${field.type})`;
  row.append(label, input, hint);
  input.addEventListener("change", () => {
    try {
      const value = valueOf(field, input.value.trim());
      input.removeAttribute("aria-invalid");
      change(() => {
        const next = { ...section };
        if (value === undefined) delete next[keyOf(field.name)];
        else next[keyOf(field.name)] = value;
        section = next;
        return { trainingService: next, cluster: null };
      });
    } catch {
      input.setAttribute("aria-invalid", "true");
    }
  });
  return row;
}

/** @param {string} name */
function show(name) {
  if (name !== shown) {
    shown = name;
    place.replaceChildren(...(forms[name] ?? []).filter((field) => !field.is_inner).map(row));
  }
  for (const input of /** @type {NodeListOf<HTMLInputElement | HTMLSelectElement>} */ (place.querySelectorAll("[data-platform-field]"))) {
    if (input === document.activeElement && !(input instanceof HTMLSelectElement)) continue;
    const value = section[keyOf(input.dataset.platformField ?? "")];
    input.value = value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  }
}

export function startPlatformFields() {
  select.addEventListener("change", () => {
    if (!select.value) {
      change({ trainingService: null });
      return;
    }
    change(() => ({ trainingService: { platform: select.value }, cluster: null }));
  });
  onValues((values) => {
    select.disabled = values === null;
    if (!values) return;
    section = values.trainingService !== null && typeof values.trainingService === "object" ? values.trainingService : {};
    const written = String(section.platform ?? "").toLowerCase();
    select.value = [...select.options].find((option) => option.value === written)?.value ?? "";
    show(select.value);
  });
}
