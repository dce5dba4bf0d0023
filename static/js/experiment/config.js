/** The tab of the config: what was changed since the launch stays as it is now, and can be undone. */

import { showError } from "../action_error.js";
import { confirmed } from "../confirm.js";
import { refreshParts, rest } from "../rest.js";
import { page, startHead } from "./head.js";

/** The parts of the page that say what is so now. */
const refresh = () => refreshParts(["changes", "search-space"]);

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-undo]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  const number = button.dataset.undo;
  if (!await confirmed({
    title: `Undo change ${number}?`,
    text: "What it changed gets the values from before. That is a further change, which can be undone, too; trials that are there stay.",
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

startHead({
  told: () => refresh().catch(() => {}), // the light says that there is no connection; the next change asks again
  missed: refresh,
});
