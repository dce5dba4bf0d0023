/**
 * What every page gets: local times, trials by their names, filters that apply when one is chosen, and dialogs that give
 * the focus back.
 */

import { nameTrials } from "../ui/named_trials.js";
import { pinColumns } from "../ui/pinned_columns.js";
import { localizeTimes } from "../ui/times.js";

localizeTimes(document);
nameTrials(document);
pinColumns();

// on a phone the rows of links scroll: the present page is in sight
for (const link of document.querySelectorAll('header.site nav [aria-current="page"], .tabs [aria-current="page"]')) {
  const row = /** @type {HTMLElement} */ (link.parentElement);
  if (row.scrollWidth > row.clientWidth) row.scrollLeft = /** @type {HTMLElement} */ (link).offsetLeft - row.offsetLeft - row.clientWidth / 3;
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("dialog [data-close]") : null;
  button?.closest("dialog")?.close();
});

// A dialog that is closed gives the focus back to what opened it. The browser does it alone only while that can have the
// focus: a button in a menu that has closed since, or one that was disabled while it asked, could not.
/** What was clicked last outside of a dialog. @type {HTMLElement | null} */
let opener = null;
document.addEventListener("click", (event) => {
  /** @type {HTMLElement | null} */
  const clicked = event.target instanceof Element ? event.target.closest("a[href], button, summary, input") : null;
  if (clicked && !clicked.closest("dialog")) opener = clicked;
}, true);
document.addEventListener("close", (event) => {
  if (!(event.target instanceof HTMLDialogElement)) return;
  // what the dialog was asked for goes on first: it enables its button again, or puts the focus elsewhere
  setTimeout(() => {
    if (document.activeElement !== document.body || !opener?.isConnected) return;
    (opener.closest("details:not([open])")?.querySelector("summary") ?? opener).focus();
  });
}, true);

for (const form of document.querySelectorAll("form.filters")) {
  form.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement) /** @type {HTMLFormElement} */ (form).requestSubmit();
  });
  form.addEventListener("submit", () => {
    // what is empty need not stand in the address
    for (const field of /** @type {HTMLFormElement} */ (form).elements) {
      if ((field instanceof HTMLInputElement || field instanceof HTMLSelectElement) && !field.value) field.disabled = true;
    }
  });
}
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form.filters :disabled")) field.removeAttribute("disabled");
});
