/**
 * The page "New experiment": four ways to a config, its fields and search space beside it, the code from where it is,
 * and checking and launching without leaving the page, so that what was typed and chosen stays. Without this script the
 * form is sent as it is.
 */

import { readRaw } from "../lib/exact_json.js";
import { startCode, putCode, chooseWay, takeDroppedFolder, CannotPack } from "../new_experiment/code_source.js";
import { settled, startFields } from "../new_experiment/config_fields.js";
import { startPlatformFields } from "../new_experiment/platform_fields.js";
import { clearMarks, goToLine, mark, mayReplace, setText, startEditor, takeFile, text } from "../new_experiment/editor.js";
import { startSeveralClusters } from "../new_experiment/several_clusters.js";
import { showSpaceError, startSpace } from "../new_experiment/search_space.js";

const form = /** @type {HTMLFormElement} */ (document.getElementById("launch"));
const doing = /** @type {HTMLElement} */ (document.getElementById("doing"));
const upload = /** @type {HTMLProgressElement} */ (document.getElementById("upload"));
const TOKEN = String(new FormData(form).get("csrfmiddlewaretoken") ?? "");
const outcome = () => /** @type {HTMLElement} */ (document.getElementById("outcome"));
/** @param {string} words */
const say = (words) => {
  doing.textContent = words;
};

// --- the ways to a config --------------------------------------------------------------------

/** @param {string} way */
function showWay(way) {
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll(".way"))) part.hidden = part.dataset.way !== way;
  for (const link of document.querySelectorAll(".ways a")) {
    if (link instanceof HTMLElement && link.dataset.way === way) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (way === "fields" && !text.value.trim()) {
    setText(/** @type {HTMLTemplateElement} */ (document.getElementById("field-start")).content.textContent ?? "", false);
  }
}

for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(".ways a"))) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); // the text stays
    showWay(link.dataset.way ?? "");
    const address = new URL(location.href);
    address.search = `?way=${link.dataset.way}`;
    history.replaceState(null, "", address);
  });
}

for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(".starts a, .earlier a"))) {
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (await mayReplace()) location.assign(link.href);
  });
}

document.getElementById("config-file")?.addEventListener("change", (event) => {
  const input = /** @type {HTMLInputElement} */ (event.currentTarget);
  if (input.files?.[0]) takeFile(input.files[0], say);
  input.value = "";
});

// what misses its place must not take the browser away from what was typed
for (const kind of /** @type {const} */ (["dragover", "drop"])) {
  document.addEventListener(kind, (event) => {
    if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    if (kind === "drop" && !takeDroppedFolder(event)) say("Drop an experiment file on the text, and code on the code field.");
  });
}

// --- errors at their places ------------------------------------------------------------------

function clearErrors() {
  clearMarks();
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  for (const words of form.querySelectorAll(".field-error")) words.remove();
}

/** The field of the form that an error's path means. @param {HTMLElement} error */
function fieldOf(error) {
  const named = error.dataset.input ? form.elements.namedItem(error.dataset.input) : null;
  if (error.dataset.input === "code") return document.getElementById("code-folder");
  if (named instanceof HTMLElement) return named;
  const path = error.dataset.path ?? "";
  return /** @type {HTMLElement[]} */ ([...form.querySelectorAll("#fields [data-field]")]).find((field) => {
    const name = field.dataset.field ?? "";
    return path === name || path.startsWith(`${name}.`);
  }) ?? null;
}

/** Mark the lines and fields of the errors that are shown, and go to the first that has a place. */
function showErrors() {
  const errors = [.../** @type {NodeListOf<HTMLElement>} */ (outcome().querySelectorAll(".errors > li"))];
  for (const error of errors) {
    const words = error.querySelector(".message")?.textContent?.trim() ?? "";
    if (error.dataset.line) mark(Number(error.dataset.line), words);
    const field = fieldOf(error);
    if (field) {
      if (error.dataset.input && error.dataset.input !== "code") {
        const part = /** @type {HTMLElement | null} */ (field.closest("[data-code]"));
        if (part?.dataset.code) chooseWay(part.dataset.code);
      }
      const place = document.createElement("p");
      place.className = "error field-error small";
      place.id = `wrong-${errors.indexOf(error)}`;
      place.textContent = words;
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", place.id);
      (field.closest(".drop") ?? field).after(place);
    }
    const inSpace = /^search_?space\.?(.*)$/i.exec(error.dataset.path ?? "");
    if (inSpace?.[1]) showSpaceError(inSpace[1], words);
    error.querySelector("a.place")?.addEventListener("click", (event) => {
      event.preventDefault();
      goTo(error);
    });
  }
  const first = errors.find((error) => error.dataset.line || error.dataset.input) ?? errors[0];
  if (first) goTo(first);
}

/** @param {HTMLElement} error */
function goTo(error) {
  if (error.dataset.line) {
    goToLine(Number(error.dataset.line));
    return;
  }
  const field = fieldOf(error);
  if (field) field.focus();
  else outcome().scrollIntoView({ block: "nearest" });
}

// --- checking and launching ------------------------------------------------------------------

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const act = /** @type {HTMLButtonElement | null} */ (event.submitter)?.value ?? "check";
  go(act);
});

/** @param {string} act  check or launch */
async function go(act) {
  clearErrors();
  outcome().replaceChildren();
  busy(true);
  try {
    await settled();
    const data = await formData();
    if (!data) return;
    data.set("act", act);
    const request = await send(form.action, data, act === "launch" ? "Launching …" : "Checking …");
    if (request.status === 201) {
      say("Launched.");
      location.assign(JSON.parse(request.responseText).address);
      return;
    }
    const page = new DOMParser().parseFromString(request.responseText, "text/html");
    const found = page.getElementById("outcome");
    if (request.status !== 200 || !found) {
      say(trouble(request.status));
      return;
    }
    say("");
    outcome().replaceChildren(...found.childNodes);
    showErrors();
    if (!outcome().querySelector(".errors")) outcome().scrollIntoView({ block: "nearest" });
  } finally {
    busy(false);
    upload.hidden = true;
  }
}

/** What is sent, with the code as it was chosen; null after saying why there is none. */
async function formData() {
  const data = new FormData(form);
  try {
    await putCode(data, (words, share) => {
      say(words);
      upload.hidden = false;
      upload.value = share;
    });
    return data;
  } catch (error) {
    if (!(error instanceof CannotPack)) throw error;
    say("");
    showTrouble(error.message);
    return null;
  }
}

/** What the page itself finds wrong with the code. @param {string} message */
function showTrouble(message) {
  const item = document.createElement("li");
  item.dataset.input = "code";
  const words = document.createElement("span");
  words.className = "message";
  words.textContent = message;
  item.append(words);
  const list = document.createElement("ol");
  list.className = "errors";
  list.append(item);
  outcome().replaceChildren(list);
  showErrors();
}

/** @param {number} status */
function trouble(status) {
  if (status === 0) return "The server does not answer. Your input is kept. Try again.";
  if (status === 413) return "The server, or a proxy in front of it, does not take so much at once. Leave out files that the trials do not need.";
  return `The server could not do this (${status}). Your input is kept. Reload the page if this continues.`;
}

/**
 * XMLHttpRequest rather than fetch: it tells how far an upload is.
 * @param {string} address @param {FormData} data @param {string} words
 * @returns {Promise<XMLHttpRequest>}
 */
function send(address, data, words) {
  say(words);
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", address);
    request.setRequestHeader("X-Requested-With", "fetch");
    request.setRequestHeader("X-CSRFToken", TOKEN);
    request.upload.addEventListener("progress", (event) => {
      const sends = data.has("code") && event.loaded < event.total;
      upload.hidden = !sends;
      upload.value = event.total ? event.loaded / event.total : 0;
      say(sends ? `Sent ${mebibytes(event.loaded)} of ${mebibytes(event.total)} MB` : words);
    });
    request.addEventListener("loadend", () => resolve(request));
    request.send(data);
  });
}

/** @param {number} bytes */
const mebibytes = (bytes) => (bytes / 1_048_576).toFixed(1);

/** The search space out of the file that the config names; null after showing what is wrong. */
async function searchSpaceOfFile() {
  busy(true);
  try {
    const data = await formData();
    if (!data) return null;
    data.delete("csrfmiddlewaretoken");
    for (const [name, value] of [...data]) if (value === "") data.delete(name);
    const request = await send("/api/v1/experiments/check/", data, "Reading the search space …");
    say("");
    if (request.status === 200) return readRaw(request.responseText).search_space;
  } finally {
    busy(false);
    upload.hidden = true;
  }
  await go("check"); // what is wrong, at its place
  return null;
}

/** @param {boolean} is */
function busy(is) {
  for (const button of form.querySelectorAll("button")) button.disabled = is;
}

for (const part of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".plain-only"))) part.hidden = true;
startEditor(say);
startCode();
startSpace(searchSpaceOfFile);
startPlatformFields();
startSeveralClusters();
startFields();
showErrors();
