/**
 * The page "New experiment": line numbers, a marker at each line that is wrong, and checking and launching
 * without leaving the page, so that what was typed and the chosen file stay. Without this script the form is
 * sent as it is.
 */

import { confirmed } from "./confirm.js";

const form = /** @type {HTMLFormElement} */ (document.getElementById("launch"));
const text = /** @type {HTMLTextAreaElement} */ (document.getElementById("config"));
const gutter = /** @type {HTMLElement} */ (document.getElementById("gutter"));
const doing = /** @type {HTMLElement} */ (document.getElementById("doing"));
const upload = /** @type {HTMLProgressElement} */ (document.getElementById("upload"));
const outcome = () => /** @type {HTMLElement} */ (document.getElementById("outcome"));
let untouched = text.value;

// --- the editor ------------------------------------------------------------------------------

function numberLines() {
  const wanted = text.value.split("\n").length;
  while (gutter.childElementCount > wanted) gutter.lastElementChild?.remove();
  while (gutter.childElementCount < wanted) {
    const number = document.createElement("span");
    number.textContent = String(gutter.childElementCount + 1);
    gutter.append(number);
  }
  gutter.scrollTop = text.scrollTop;
}

text.addEventListener("input", numberLines);
text.addEventListener("scroll", () => {
  gutter.scrollTop = text.scrollTop;
});

text.addEventListener("dragover", (event) => event.preventDefault());
text.addEventListener("drop", async (event) => {
  const file = event.dataTransfer?.files[0];
  if (!file) return; // text that is dragged about
  event.preventDefault();
  if (file.size > 1_000_000) {
    doing.textContent = `${file.name} is too large for an experiment file.`;
    return;
  }
  if (await mayReplace()) {
    text.value = await file.text();
    untouched = text.value;
    numberLines();
    clearMarks();
  }
});

// --- errors at their lines -------------------------------------------------------------------

function clearMarks() {
  for (const number of gutter.querySelectorAll(".wrong")) {
    number.classList.remove("wrong");
    number.removeAttribute("title");
  }
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

/** Mark the lines and fields of the errors that are shown, and go to the first that has a place. */
function showErrors() {
  const errors = [.../** @type {NodeListOf<HTMLElement>} */ (outcome().querySelectorAll(".errors > li"))];
  for (const error of errors) {
    const line = Number(error.dataset.line);
    const number = gutter.children[line - 1];
    if (number instanceof HTMLElement) {
      number.classList.add("wrong");
      number.title = error.querySelector(":scope > span:last-child")?.textContent?.trim() ?? "";
    }
    const wrong = line ? text : form.elements.namedItem(error.dataset.input ?? "");
    if (wrong instanceof HTMLElement) wrong.setAttribute("aria-invalid", "true");
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
  const line = Number(error.dataset.line);
  if (line) {
    const lines = text.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
    const height = text.scrollHeight / lines.length;
    if ((line - 1) * height < text.scrollTop || line * height > text.scrollTop + text.clientHeight) {
      text.scrollTop = Math.max(0, (line - 4) * height);
    }
    return;
  }
  const field = form.elements.namedItem(error.dataset.input ?? "");
  if (field instanceof HTMLElement) field.focus();
  else outcome().scrollIntoView({ block: "nearest" });
}

// --- checking and launching ------------------------------------------------------------------

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const act = /** @type {HTMLButtonElement | null} */ (event.submitter)?.value ?? "check";
  const data = new FormData(form);
  data.set("act", act);
  const code = data.get("code");
  if (code instanceof File && code.size === 0 && !code.name) data.delete("code");
  send(data, act === "launch" ? "Launching …" : "Checking …");
});

/**
 * Send the form. XMLHttpRequest rather than fetch: it tells how far an upload is.
 * @param {FormData} data
 * @param {string} words
 */
function send(data, words) {
  const request = new XMLHttpRequest();
  request.open("POST", form.action);
  request.setRequestHeader("X-Requested-With", "fetch");
  request.upload.addEventListener("progress", (event) => {
    upload.hidden = !data.has("code") || event.loaded === event.total;
    upload.value = event.total ? event.loaded / event.total : 0;
    doing.textContent = upload.hidden ? words : `Uploading ${Math.round(100 * upload.value)} %`;
  });
  request.addEventListener("loadend", () => {
    busy(false);
    upload.hidden = true;
    if (request.status === 201) {
      doing.textContent = "Launched.";
      location.assign(JSON.parse(request.responseText).address);
      return;
    }
    const page = new DOMParser().parseFromString(request.responseText, "text/html");
    const found = page.getElementById("outcome");
    if (request.status !== 200 || !found) {
      doing.textContent = request.status === 0
        ? "The server does not answer. What you typed is kept; try again."
        : `The server could not do this (${request.status}). What you typed is kept; reload the page if it goes on.`;
      return;
    }
    doing.textContent = "";
    outcome().replaceChildren(...found.childNodes);
    showErrors();
    if (!outcome().querySelector(".errors")) outcome().scrollIntoView({ block: "nearest" });
  });
  clearMarks();
  outcome().replaceChildren();
  busy(true);
  doing.textContent = words;
  request.send(data);
}

/** @param {boolean} is */
function busy(is) {
  for (const button of form.querySelectorAll("button")) button.disabled = is;
}

// --- starting from something else ------------------------------------------------------------

/** Whether what was typed may go: true where nothing was. */
async function mayReplace() {
  if (text.value === untouched || text.value.trim() === "") return true;
  return confirmed({ title: "Replace what you typed?", text: "It is not kept anywhere.", action: "Replace it" });
}

for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(".starts a"))) {
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (await mayReplace()) location.assign(link.href);
  });
}

numberLines();
showErrors();
