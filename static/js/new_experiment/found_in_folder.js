/** Offers what was found in a chosen folder: its experiment file, or its search space and its script. */

import { takeFile } from "./editor.js";
import { contentsOf } from "./folder_contents.js";

const list = /** @type {HTMLElement} */ (document.getElementById("found-in-folder"));

/**
 * @param {import("./folder_contents.js").Chosen[]} files
 * @param {(words: string) => void} say
 */
export async function offerContents(files, say) {
  const { config, space, script } = await contentsOf(files);
  const offers = [];
  if (config) offers.push(offer(config, "is an experiment file", "Use it", () => takeFile(/** @type {File} */ (config.file), say)));
  if (space) offers.push(offer(space, "is a search space", "Use it", async () => put("space-json", await space.file.text())));
  if (script) offers.push(offer(script, "can be a trial", "Use it as the command", () => put("f-command", `python3 ${quoted(script.path)}`)));
  list.replaceChildren(...offers);
  list.hidden = offers.length === 0;
}

/** Nothing is offered of what is chosen now. */
export function clearOffers() {
  list.replaceChildren();
  list.hidden = true;
}

/**
 * @param {import("./folder_contents.js").Chosen} found
 * @param {string} what
 * @param {string} words
 * @param {() => unknown} use
 */
function offer({ path }, what, words, use) {
  const item = document.createElement("li");
  const name = document.createElement("code");
  name.textContent = path;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small";
  button.textContent = words;
  button.setAttribute("aria-label", `${words}: ${path}`);
  button.addEventListener("click", use);
  item.append(name, ` ${what} `, button);
  return item;
}

/**
 * As if a person had typed it there.
 * @param {string} id
 * @param {string} value
 */
function put(id, value) {
  const field = /** @type {HTMLInputElement} */ (document.getElementById(id));
  field.value = value;
  for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
}

/** For a shell. @param {string} path */
function quoted(path) {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
