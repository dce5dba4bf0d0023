/**
 * The form of a platform beside the text. It changes the trainingService section of the text, or trialOptions where the
 * text names a cluster; the text stays the only truth. The server is asked for the fields of a platform when it is
 * chosen: loading all platforms takes it seconds.
 */

import { rest, RestError } from "../lib/rest.js";
import { SettingsForm } from "../ui/settings_form.js";
import { change, onValues } from "./config_fields.js";

const select = /** @type {HTMLSelectElement} */ (document.getElementById("f-platform"));
const place = /** @type {HTMLElement} */ (document.getElementById("platform-fields"));
const clusters = /** @type {HTMLSelectElement} */ (document.getElementById("cluster"));
/** @typedef {import("../ui/settings_tree.js").Field} Field */
/** The answers so far, by the platforms' names. @type {Map<string, Field[]>} */
const known = new Map();
/** The platform whose form is shown, and whether it is that of a cluster which is set up. */
let shown = { name: "", isOfCluster: false };
/** What the text says of these fields. @type {Record<string, any>} */
let given = {};

/** The form of the platform of the text; empty until the server has answered. @param {SettingsForm} form */
async function show(form) {
  const asked = shown;
  form.setFields(fieldsOf(asked));
  if (!asked.name || known.has(asked.name)) return;
  try {
    const answer = await rest("GET", `platforms/${encodeURIComponent(asked.name)}/`);
    known.set(asked.name, answer.fields_of_section);
    if (asked !== shown) return;
    form.setFields(fieldsOf(asked));
    form.set(given);
  } catch (error) {
    if (asked !== shown || !(error instanceof RestError)) return;
    const words = document.createElement("p");
    words.className = "error small";
    words.textContent = error.isOfConnection
      ? "The fields of this platform were not loaded, because the server does not answer. Choose the platform again later, or write its section into the file."
      : error.sentences;
    place.replaceChildren(words);
    shown = { name: "", isOfCluster: false }; // to be asked for again
  }
}

/** Those that the form can show so far. @param {typeof shown} platform */
function fieldsOf({ name, isOfCluster }) {
  return (known.get(name) ?? []).filter((field) => !isOfCluster || !field.of_cluster);
}

export function startPlatformFields() {
  const form = new SettingsForm(place, { prefix: "f-platform", folds: false, onChange: () => change(() => written(form.value)) });
  select.addEventListener("change", () => {
    if (!select.value) {
      change({ trainingService: null });
      return;
    }
    change(() => ({ trainingService: { platform: select.value }, cluster: null, trialOptions: null }));
  });
  onValues((values) => {
    select.disabled = values === null;
    if (!values) return;
    const section = groupOf(values.trainingService);
    const named = String(section.platform ?? "").toLowerCase();
    select.value = [...select.options].find((option) => option.value === named)?.value ?? "";
    const isOfCluster = !select.value && !values.trainingService;
    const name = isOfCluster ? platformOf(values.cluster) : select.value;
    given = isOfCluster ? groupOf(values.trialOptions) : section;
    if (name !== shown.name || isOfCluster !== shown.isOfCluster) {
      shown = { name, isOfCluster };
      show(form);
    }
    if (!name) place.replaceChildren();
    else if (known.has(name)) form.set(given);
  });
}

/** @param {Record<string, any>} value  of the form */
function written(value) {
  if (!shown.isOfCluster) return { trainingService: value, cluster: null };
  return { trialOptions: Object.keys(value).length ? value : null };
}

/** @param {any} value @returns {Record<string, any>} */
function groupOf(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

/** Of a cluster that may be chosen; "" for any other. @param {any} cluster */
function platformOf(cluster) {
  return [...clusters.options].find((option) => option.value !== "" && option.value === cluster)?.dataset.platform ?? "";
}
