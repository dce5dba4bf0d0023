/** The tab of the config: what was changed since the launch stays as it is now, and can be undone. */

import { showError } from "../../ui/action_error.js";
import { confirmed } from "../../ui/confirm.js";
import { rest } from "../../lib/rest.js";
import { refreshParts } from "../../ui/refreshed_parts.js";
import { page, startHead } from "../head.js";

/** The parts of the page that say what is so now. */
const refresh = () => refreshParts(["facts", "changes", "kept", "search-space"]);

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-undo]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  const number = button.dataset.undo;
  if (!await confirmed({
    title: `Undo change ${number}?`,
    text: "The previous values are restored. This is a new change, which can also be undone. Existing trials do not change.",
    action: "Undo it",
  })) return;
  button.disabled = true;
  showError(null);
  try {
    await rest("POST", `experiments/${page.experiment.id}/changes/${number}/actions/undo/`);
    await refresh();
  } catch (error) {
    showError(error);
  } finally {
    button.disabled = false;
  }
});

document.getElementById("retention-form")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
  button.disabled = true;
  showError(null);
  try {
    const retention = Object.fromEntries([...new FormData(form)].map(([kind, text]) => [kind, days(String(text).trim())]));
    await rest("PATCH", `experiments/${page.experiment.id}/`, { retention });
    await refresh();
  } catch (error) {
    showError(error);
  } finally {
    button.disabled = false;
  }
});

/** What the server shall read; of what is no number of days it says what is wrong. @param {string} text */
function days(text) {
  if (!text) return null;
  return /^\d+$/.test(text) ? Number(text) : text.toLowerCase();
}

startHead({
  told: () => refresh().catch(() => {}), // the light says that there is no connection; the next change asks again
  missed: refresh,
});
