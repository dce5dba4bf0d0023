/**
 * The form of a cluster, in the dashboard and in the admin: its platform's fields, who may use it, its metadata. It
 * calls REST, whose rules are the only ones: what is refused is said beside its field, and nothing was changed.
 */

import { confirmed } from "../ui/confirm.js";
import { readExact, WouldBeRounded } from "../lib/exact_json.js";
import { rest, RestError } from "../lib/rest.js";
import { SettingsForm } from "../ui/settings_form.js";
import { MetadataTable } from "../ui/metadata_table.js";

/** @typedef {{check: string, ok: boolean, message: string, machine: string, temporary: boolean, field: string}} Finding */

const form = /** @type {HTMLFormElement} */ (document.getElementById("cluster-form"));
const id = form.dataset.cluster ?? "";
const isNew = id === "";
/** Whether the person may set settings, metadata and whose it is: administrators. */
const maySet = form.dataset.maySet === "true";

/** @template {HTMLElement} [Kind=HTMLElement] @param {string} name @returns {Kind} */
const part = (name) => /** @type {Kind} */ (document.getElementById(name));
const platform = /** @type {HTMLSelectElement | null} */ (document.getElementById("f-platform"));
const place = document.getElementById("settings-fields");
const box = /** @type {HTMLTextAreaElement | null} */ (document.getElementById("settings-json"));
const test = /** @type {HTMLButtonElement | null} */ (document.getElementById("test"));
const save = part("save");
const said = part("said");
const findings = document.getElementById("findings");
const progress = document.getElementById("progress");

const settings = place && new SettingsForm(place, { prefix: "f-settings", folds: true, onChange: outdate });
const metadata = document.getElementById("metadata") && new MetadataTable(part("metadata"));
/** The cluster as REST has it; of a new one, what a new one is. @type {Record<string, any>} */
let stored = { name: "", settings: {}, secrets_set: [], is_private: false, group: null, owner: null, enabled: true, max_trials: null };
/** The settings as they were shown first, as JSON. */
let before = "{}";
/** By which what is saved counts as tested. */
let tested = "";
/** Whether the platform has no form: then the settings are JSON. */
let isBare = false;

/** @param {string} words @param {boolean} [isError] */
function say(words, isError = false) {
  said.textContent = words;
  said.hidden = words === "";
  said.classList.toggle("error", isError);
  if (isError) said.scrollIntoView({ block: "nearest" });
}

// --- what is in the form ---------------------------------------------------------------------

/** The settings as REST takes them. Throws SyntaxError. @returns {Record<string, any>} */
function settingsNow() {
  if (!isBare) {
    if (settings?.unread.size) throw new SyntaxError("A field cannot be read; see what is said beside it.");
    return settings?.value ?? {};
  }
  const written = box?.value.trim() || "{}";
  try {
    return readExact(written);
  } catch (error) {
    if (error instanceof WouldBeRounded) throw error;
    throw new SyntaxError('The settings are not JSON. An example: {"address": "10.0.0.5"}.');
  }
}

/** The fields besides settings and metadata. @returns {Record<string, any>} */
function fieldsNow() {
  const limit = /** @type {HTMLInputElement} */ (part("f-max_trials")).value.trim();
  /** @type {Record<string, any>} */
  const fields = {
    name: /** @type {HTMLInputElement} */ (part("f-name")).value, enabled: /** @type {HTMLInputElement} */ (part("f-enabled")).checked,
    max_trials: limit === "" ? null : Number(limit),
  };
  if (!maySet) return fields;
  const people = /** @type {HTMLSelectElement} */ (part("f-people")).value;
  const owner = /** @type {HTMLInputElement} */ (part("f-owner")).value.trim();
  return { ...fields, is_private: people === "private", group: people === "private" ? stored.group : people.slice("group:".length) || null,
    owner: owner || null };
}

/** What the platform declares becomes the form. @param {string} name */
async function showPlatform(name) {
  if (!settings || !place || !box) return;
  const note = part("settings-note");
  place.hidden = true;
  part("settings-bare").hidden = true;
  note.textContent = name ? "Loading the platform's fields …" : "Choose a platform to see its fields.";
  if (!name) return;
  const asked = name;
  /** @type {{declares_settings: boolean, fields_of_section: import("../ui/settings_tree.js").Field[]}} */
  const found = await rest("GET", `platforms/${encodeURIComponent(name)}/`);
  if (platform && platform.value !== asked) return; // another one was chosen meanwhile
  const fields = found.fields_of_section.filter((field) => field.of_cluster);
  isBare = !found.declares_settings;
  part("settings-bare").hidden = !isBare;
  place.hidden = fields.length === 0;
  note.textContent = isBare ? `The platform ${name} does not declare its settings, so there is no form for them. Give them as JSON; the platform checks them.`
    : fields.length === 0 ? `The platform ${name} needs no settings.` : "";
  box.value = JSON.stringify(stored.settings, null, 2);
  settings.setFields(fields);
  settings.set(stored.settings, stored.secrets_set);
  before = JSON.stringify(isBare ? stored.settings : settings.value);
}

// --- errors at their places ------------------------------------------------------------------

function clear() {
  say("");
  settings?.say([]);
  metadata?.say([]);
  for (const old of form.querySelectorAll(".field-error")) old.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

/** @param {unknown} error @param {string} done  what was not done */
function complain(error, done = "saved") {
  if (!(error instanceof RestError)) {
    say(error instanceof Error ? error.message : String(error), true);
    return;
  }
  const ofSettings = [];
  const ofMetadata = [];
  const others = [];
  for (const { field, message } of error.errors) {
    if (/^settings[.[]/.test(field) && settings && !isBare) ofSettings.push({ field: field.replace(/^settings\.?/, ""), message, kind: /** @type {const} */ ("bad") });
    else if (field === "settings" && !isBare) others.push(`Settings: ${message}.`.replace(/\.\.$/, ".")); // about several fields
    else if (field.startsWith("metadata.") && metadata) ofMetadata.push({ key: field.slice("metadata.".length), message });
    else if (!sayAt(field.startsWith("settings") && isBare ? "settings" : field, field.startsWith("settings.") ? `${field.slice("settings.".length)}: ${message}` : message)) others.push(message);
  }
  const left = settings?.say(ofSettings) ?? [];
  metadata?.say(ofMetadata);
  const count = error.errors.length;
  const about = error.errors.some(({ field }) => field) ? `${count === 1 ? "One field is" : `${count} fields are`} wrong; nothing was ${done}. ` : "";
  say(`${about}${[...others, ...left.map((each) => `${each.field}: ${each.message}`)].join(" ")}`, true);
  const first = ofSettings[0];
  if (first && settings) settings.goTo(first.field);
  else /** @type {HTMLElement | null} */ (form.querySelector("[aria-invalid]"))?.focus();
}

/** @param {string} field @param {string} message */
function sayAt(field, message) {
  const control = form.querySelector(`[data-field="${CSS.escape(field)}"]`);
  if (!control) return false;
  const words = document.createElement("p");
  words.className = "error field-error small";
  words.id = `wrong-${field}`;
  words.textContent = message;
  control.after(words);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", words.id);
  return true;
}

// --- test ------------------------------------------------------------------------------------

function outdate() {
  if (!findings || !tested) return;
  tested = "";
  part("test-state").textContent = "The settings were changed after this test.";
}

function forgetFindings() {
  findings?.replaceChildren();
  const good = document.getElementById("good");
  if (good) good.hidden = true;
}

/** @param {Finding} finding */
function item(finding) {
  const made = document.createElement("li");
  made.className = finding.ok ? "good" : finding.temporary ? "wait" : "bad";
  const icon = document.createElement("span");
  icon.className = "icon";
  icon.setAttribute("aria-hidden", "true");
  icon.textContent = finding.ok ? "✔" : finding.temporary ? "!" : "✖";
  const words = document.createElement("span");
  const kind = document.createElement("span");
  kind.className = "visually-hidden";
  kind.textContent = finding.ok ? "Good:" : finding.temporary ? "Warning:" : "Wrong:";
  words.append(kind, ` ${finding.message} `);
  if (finding.machine) {
    const machine = document.createElement("span");
    machine.className = "quiet small";
    machine.textContent = `${finding.machine} `;
    words.append(machine);
  }
  if (!finding.ok && finding.field && settings?.rowOf(finding.field)) {
    const link = document.createElement("button");
    link.type = "button";
    link.className = "link small";
    link.textContent = "Go to the field";
    link.addEventListener("click", () => settings.goTo(finding.field));
    words.append(link);
  }
  made.append(icon, words);
  return made;
}

test?.addEventListener("click", async () => {
  clear();
  const state = part("test-state");
  const began = Date.now();
  let body;
  try {
    body = { settings: settingsNow(), ...(isNew ? { platform: platform?.value ?? "" } : { cluster: id }) };
  } catch (error) {
    complain(error, "tested");
    return;
  }
  test.disabled = true;
  if (progress) progress.hidden = false;
  forgetFindings();
  const tell = () => {
    state.textContent = `Testing … ${Math.round((Date.now() - began) / 1000)} s`;
  };
  tell();
  const clock = setInterval(tell, 1000);
  try {
    /** @type {{findings: Finding[], tested: string}} */
    const found = await rest("POST", "clusters/check/", body);
    const wrong = found.findings.filter((finding) => !finding.ok);
    findings?.replaceChildren(...wrong.map(item));
    const good = found.findings.filter((finding) => finding.ok);
    part("good-findings").replaceChildren(...good.map(item));
    part("good-count").textContent = `${good.length} good check${good.length === 1 ? "" : "s"}`;
    part("good").hidden = good.length === 0;
    settings?.say(wrong.map((finding) => ({ field: finding.field, message: finding.message, kind: /** @type {"bad" | "wait"} */ (finding.temporary ? "wait" : "bad") }))
      .filter((message) => message.field !== ""));
    state.textContent = found.findings.length === 0 ? "The platform tests nothing."
      : wrong.length ? `${wrong.length} of ${found.findings.length} checks found something wrong.`
        : `All ${found.findings.length} checks are good (${((Date.now() - began) / 1000).toFixed(1)} s).`;
    tested = found.tested;
  } catch (error) {
    state.textContent = "Not tested.";
    complain(error, "tested");
  } finally {
    clearInterval(clock);
    if (progress) progress.hidden = true;
    test.disabled = false;
  }
});

// --- save and delete -------------------------------------------------------------------------

/** Where the page leads when the cluster is saved. @param {string} cluster */
const after = (cluster) => (form.dataset.after ?? "").replace("CLUSTER", cluster);

/** Stored secrets that REST would not keep with these settings: they must be given again, or removed. @param {Record<string, any>} wanted */
async function lostSecrets(wanted) {
  if (!settings || isBare || settings.kept.length === 0) return [];
  const { secrets_set: stays } = await rest("POST", "clusters/check/", { cluster: id, settings: wanted, test: false });
  return settings.kept.filter((path) => !stays.includes(path));
}

async function saved() {
  const fields = fieldsNow();
  if (isNew) {
    return rest("POST", "clusters/", { ...fields, platform: platform?.value ?? "", settings: settingsNow(), tested });
  }
  /** @type {Record<string, any>} */
  const changes = Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== stored[name]));
  if (maySet) {
    const wanted = settingsNow();
    if (JSON.stringify(wanted) !== before) {
      const lost = await lostSecrets(wanted);
      if (lost.length) {
        throw new RestError(400, lost.map((path) => ({
          field: `settings.${path}`, message: "was given for this entry as it was before, and is not sent elsewhere. Replace it, or remove it.",
        })));
      }
      Object.assign(changes, { settings: wanted, tested });
    }
    const rows = metadata?.changes ?? {};
    if (Object.keys(rows).length) changes.metadata = rows;
  }
  return Object.keys(changes).length ? rest("PATCH", `clusters/${id}/`, changes) : stored;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  clear();
  /** @type {HTMLButtonElement} */ (save).disabled = true;
  say("Saving …");
  try {
    location.assign(after((await saved()).id));
  } catch (error) {
    complain(error);
  } finally {
    /** @type {HTMLButtonElement} */ (save).disabled = false;
  }
});

document.getElementById("delete")?.addEventListener("click", async () => {
  if (!await confirmed({ title: `Delete ${stored.name}?`, text: "Its settings and secrets are removed. This cannot be undone.", action: "Delete cluster" })) return;
  clear();
  try {
    await rest("DELETE", `clusters/${id}/`);
    location.assign(form.dataset.list ?? "/");
  } catch (error) {
    complain(error);
  }
});

platform?.addEventListener("change", () => {
  clear();
  outdate();
  forgetFindings();
  if (findings) part("test-state").textContent = "";
  showPlatform(platform.value).catch((error) => complain(error, "changed"));
});
box?.addEventListener("change", outdate);

async function start() {
  if (!isNew) stored = await rest("GET", `clusters/${id}/`);
  await showPlatform(isNew ? platform?.value ?? "" : stored.platform);
  if (metadata && !isNew) metadata.show(await rest("GET", `clusters/${id}/metadata/`).catch((error) => {
    if (error instanceof RestError && error.status === 404) return []; // the platform is not installed any more
    throw error;
  }));
  form.dataset.state = "ready";
}
start().catch((error) => complain(error, "changed"));
