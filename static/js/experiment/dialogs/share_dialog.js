/** Shares the experiment with a group, or hands it over to somebody else. */

import { rest, RestError } from "../../lib/rest.js";

/** @param {string} id  of the experiment */
export function startShareDialog(id) {
  const dialog = document.getElementById("share-dialog");
  if (!(dialog instanceof HTMLDialogElement)) return;
  const choices = /** @type {HTMLSelectElement[]} */ ([...dialog.querySelectorAll("select")]);
  const complaint = /** @type {HTMLElement} */ (dialog.querySelector(".error"));
  const button = /** @type {HTMLButtonElement} */ (dialog.querySelector("[data-save]"));

  // in the line, and in the menu of narrow pages
  for (const opener of document.querySelectorAll('[data-open="share-dialog"]')) {
    opener.addEventListener("click", () => {
      for (const choice of choices) choice.value = choice.dataset.stored ?? "";
      complaint.hidden = true;
      dialog.showModal();
    });
  }
  dialog.querySelector("form")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const changed = choices.filter((choice) => choice.value !== choice.dataset.stored);
    if (!changed.length) {
      dialog.close();
      return;
    }
    button.disabled = true;
    complaint.hidden = true;
    try {
      await rest("PATCH", `experiments/${id}/`, Object.fromEntries(changed.map((choice) => [choice.name, choice.value || null])));
      await seeIt();
    } catch (error) {
      complaint.textContent = error instanceof RestError ? error.sentences : String(error);
      complaint.hidden = false;
      button.disabled = false;
    }
  });

  /** The page as it is now, or the list, where the experiment is not this person's to see any more. */
  async function seeIt() {
    try {
      await rest("GET", `experiments/${id}/`);
    } catch (error) {
      if (!(error instanceof RestError) || error.status !== 404) throw error;
      location.assign("/");
      return;
    }
    location.reload();
  }
}
