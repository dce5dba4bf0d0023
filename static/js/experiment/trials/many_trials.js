/** What is done to many trials in one call: asked once, told what was done and what was not. */

import { confirmed } from "../../ui/confirm.js";
import { rest } from "../../lib/rest.js";

/** @type {Record<string, (count: string) => {title: string, text: string, action: string, loses?: boolean}>} */
const QUESTIONS = {
  stop: (count) => ({
    title: `Stop ${count}?`,
    text: "Selected trials that have not ended are ended now, and metrics that they have not reported yet are lost. Ended trials do not change.",
    action: count === "1 trial" ? "Stop trial" : "Stop trials",
  }),
  freeze: (count) => ({
    title: `Freeze ${count}?`,
    text: "Selected trials that have not ended are asked to save a checkpoint and end. They continue from their last checkpoint when somebody "
      + "thaws them; a trial without one begins from the beginning.",
    action: count === "1 trial" ? "Freeze trial" : "Freeze trials",
  }),
  rerun: (count) => ({
    title: `Run ${count} again?`,
    text: "Each gets a new trial with the same parameters, and the same changes to the code if there are any, unless it has not ended or is being run again already. The number of trials "
      + "that the experiment may have grows by as many.",
    action: "Run again",
    loses: false,
  }),
};
/** @type {Record<string, string>} */
const DONE = { stop: "stopped", freeze: "being frozen", thaw: "thawed", rerun: "queued again", tag: "tagged" };

/**
 * @param {string} action  stop, freeze, thaw, rerun or tag
 * @param {string} experiment
 * @param {number} count
 * @param {{trials: string[]} | {fitting: Record<string, string>}} chosen
 * @returns {Promise<boolean>} whether anything was asked of the server; throws RestError
 */
export async function runMany(action, experiment, count, chosen) {
  const words = count === 1 ? "1 trial" : `${count.toLocaleString()} trials`;
  /** @type {any} */
  let body = chosen;
  if (action === "tag") {
    const tags = await askedTags(words);
    if (!tags) return false;
    body = { ...chosen, ...tags };
  } else if (action in QUESTIONS && !await confirmed(QUESTIONS[action](words))) return false;
  const outcome = await rest("POST", `experiments/${experiment}/trials/actions/${action}/`, body);
  const told = document.getElementById("many-done");
  if (told) {
    const left = outcome.not_done.map((/** @type {{reason: string, count: number}} */ one) => `${one.count.toLocaleString()} not: ${one.reason}`);
    told.textContent = [`${outcome.done.toLocaleString()} ${DONE[action]}.`, ...left].join(" ");
    told.hidden = false;
  }
  return true;
}

/**
 * @param {string} words
 * @returns {Promise<{add: string[], remove: string[]} | null>}
 */
function askedTags(words) {
  const template = /** @type {HTMLTemplateElement} */ (document.getElementById("tag-dialog"));
  const dialog = /** @type {HTMLDialogElement} */ (template.content.querySelector("dialog")?.cloneNode(true));
  /** @type {HTMLElement} */ (dialog.querySelector("h2")).textContent = `Tags of ${words}`;
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const tags = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (dialog.querySelector(`[name="${name}"]`)).value
        .split(",").map((tag) => tag.trim()).filter(Boolean);
      const change = { add: tags("add"), remove: tags("remove") };
      dialog.remove();
      resolve(dialog.returnValue === "yes" && change.add.length + change.remove.length ? change : null);
    });
  });
}
