/** Where the code comes from: one of the ways is shown and sent; a folder of this computer is packed here. */

import { byteSize } from "../lib/byte_size.js";
import { packed } from "./code_archive.js";
import { clearOffers, offerContents } from "./found_in_folder.js";
import { IgnoreRules } from "./ignore_rules.js";

/** @typedef {import("./code_archive.js").Chosen} Chosen */

const box = /** @type {HTMLElement} */ (document.getElementById("code-from"));
const archive = /** @type {HTMLInputElement} */ (document.getElementById("code"));
const folder = /** @type {HTMLInputElement} */ (document.getElementById("code-folder"));
const drop = /** @type {HTMLElement} */ (document.getElementById("drop"));
const chosen = /** @type {HTMLElement} */ (document.getElementById("chosen"));
const MOST_FILES = Number(box.dataset.limitsFiles);
const MOST_BYTES = Number(box.dataset.limitsBytes);
const IGNORE_FILE = box.dataset.ignore ?? "";

/** What of a folder is sent: null where an archive, or nothing, was chosen. @type {Chosen[] | null} */
let files = null;
/** What is wrong with the chosen folder, "" where nothing is. */
let trouble = "";
/** The files of before, so that checking and launching pack once. @type {{of: Chosen[], blob: Blob} | null} */
let last = null;

export class CannotPack extends Error {}

const way = () => /** @type {HTMLInputElement | null} */ (box.querySelector("input[name=code_from]:checked"))?.value ?? "computer";

/** @param {string} value */
export function chooseWay(value) {
  const radio = /** @type {HTMLInputElement | null} */ (box.querySelector(`input[name=code_from][value=${value}]`));
  if (radio) radio.checked = true;
  show();
}

function show() {
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll("[data-code]"))) {
    part.hidden = part.dataset.code !== way();
  }
}

/**
 * Leave in the form only what the chosen way says, with the folder as an archive. Throws CannotPack.
 * @param {FormData} data
 * @param {(words: string, share: number) => void} progress
 */
export async function putCode(data, progress) {
  data.delete("code_from");
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll("[data-code]"))) {
    if (part.dataset.code === way()) continue;
    for (const field of part.querySelectorAll("[name]")) data.delete(field.getAttribute("name") ?? "");
  }
  if (way() !== "computer") return;
  data.delete("code");
  if (archive.files?.[0]) data.set("code", archive.files[0]);
  else if (files) data.set("code", await folderArchive(files, progress), "code.tar.gz");
}

/** @param {Chosen[]} wanted @param {(words: string, share: number) => void} progress */
async function folderArchive(wanted, progress) {
  if (trouble) throw new CannotPack(trouble);
  if (last?.of === wanted) return last.blob;
  if (!("CompressionStream" in window)) throw new CannotPack("This browser cannot pack folders. Choose a tar.gz or a zip.");
  const say = (/** @type {number} */ done) => progress(`Packed ${done} of ${wanted.length} files`, done / wanted.length);
  try {
    const blob = await packed(wanted, say);
    last = { of: wanted, blob };
    return blob;
  } catch (error) {
    throw new CannotPack(`A file of the folder cannot be read any more (${error instanceof Error ? error.message : error}). Choose the folder again.`);
  }
}

/** @param {string} name @param {Chosen[]} found  paths below the folder */
async function takeFolder(name, found) {
  archive.value = "";
  last = null;
  const rules = new IgnoreRules(new Map(await Promise.all(found
    .filter(({ path }) => path === IGNORE_FILE || path.endsWith(`/${IGNORE_FILE}`))
    .map(async ({ path, file }) => /** @type {[string, string]} */ ([path.slice(0, -IGNORE_FILE.length - 1), await file.text()])))));
  files = found.filter(({ path }) => !rules.ignores(path)).sort((a, b) => (a.path < b.path ? -1 : 1));
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  const out = found.length - files.length;
  chosen.textContent = `${name}: ${count(files.length)}, ${size(bytes)}${out ? `; ${count(out)} left out by ${IGNORE_FILE}` : ""}`;
  trouble = files.length > MOST_FILES || bytes > MOST_BYTES ? tooLarge(files, bytes) : "";
  if (!found.length) trouble = "The folder holds no files.";
  if (trouble) chosen.textContent = trouble;
  chosen.classList.toggle("error", Boolean(trouble));
  await offerContents(files, (words) => {
    chosen.textContent = words;
  });
}

/** @param {Chosen[]} all @param {number} bytes */
function tooLarge(all, bytes) {
  /** @type {Map<string, [number, number]>} */
  const parts = new Map();
  for (const { path, file } of all) {
    const top = path.includes("/") ? `${path.split("/")[0]}/` : path;
    const [number, sum] = parts.get(top) ?? [0, 0];
    parts.set(top, [number + 1, sum + file.size]);
  }
  const by = all.length > MOST_FILES ? 0 : 1;
  const largest = [...parts].sort((a, b) => b[1][by] - a[1][by]).slice(0, 3)
    .map(([name, [number, sum]]) => `${name} (${count(number)}, ${size(sum)})`);
  return `The folder has ${count(all.length)}, ${size(bytes)}; at most ${MOST_FILES} files and ${size(MOST_BYTES)} are sent. The largest parts: `
    + `${largest.join(", ")}. Name in ${IGNORE_FILE} what the trials do not need.`;
}

/** @param {number} number */
const count = (number) => `${number} file${number === 1 ? "" : "s"}`;
/** @param {number} bytes */
const size = byteSize;

// --- what is dropped -------------------------------------------------------------------------

/** @param {FileSystemEntry} entry @param {string} path @returns {Promise<Chosen[]>} */
async function filesOf(entry, path) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => {
      /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject);
    });
    return [{ path, file }];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {Chosen[]} */
  const found = [];
  for (;;) { // a reader gives some at a time, and none when it has given all
    const some = /** @type {FileSystemEntry[]} */ (await new Promise((resolve, reject) => {
      reader.readEntries(resolve, reject);
    }));
    if (!some.length) return found;
    for (const each of some) found.push(...await filesOf(each, path ? `${path}/${each.name}` : each.name));
  }
}

/** @param {DragEvent} event */
async function takeDropped(event) {
  const item = event.dataTransfer?.items[0];
  const entry = item?.webkitGetAsEntry();
  if (!entry) return;
  if (entry.isDirectory) {
    chosen.textContent = "Reading the folder …";
    await takeFolder(entry.name, await filesOf(entry, ""));
  } else if (event.dataTransfer) {
    archive.files = event.dataTransfer.files;
    archiveChosen();
  }
}

/**
 * Take a folder that was dropped beside the field: it can only be the code. False where it is none.
 * @param {DragEvent} event
 */
export function takeDroppedFolder(event) {
  if (!event.dataTransfer?.items[0]?.webkitGetAsEntry()?.isDirectory) return false;
  chooseWay("computer");
  take(event);
  return true;
}

/** @param {DragEvent} event */
function take(event) {
  takeDropped(event).catch(() => {
    chosen.textContent = "The dropped item cannot be read. Choose the folder or archive instead.";
  });
}

function archiveChosen() {
  clearOffers();
  files = null;
  trouble = "";
  folder.value = "";
  chosen.classList.remove("error");
  const file = archive.files?.[0];
  chosen.textContent = file ? `${file.name}: ${size(file.size)}` : "";
}

export function startCode() {
  archive.classList.add("visually-hidden");
  for (const radio of box.querySelectorAll("input[name=code_from]")) radio.addEventListener("change", show);
  archive.addEventListener("change", archiveChosen);
  folder.addEventListener("change", () => {
    const all = [...folder.files ?? []];
    const name = all[0]?.webkitRelativePath.split("/")[0] ?? "";
    takeFolder(name, all.map((file) => ({ path: file.webkitRelativePath.slice(name.length + 1), file })));
  });
  for (const kind of ["dragenter", "dragover"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    take(event);
  });
  show();
}
