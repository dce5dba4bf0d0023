/** What every page gets: local times, trials by their names, and filters that apply when one is chosen. */

import { nameTrials } from "../ui/named_trials.js";
import { localizeTimes } from "../ui/times.js";

localizeTimes(document);
nameTrials(document);

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
