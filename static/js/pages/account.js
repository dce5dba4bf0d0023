/** Pages of the account and of tokens: asks before a token ends, copies a new one and the first lines with it, chooses
 *  the leash where one is described. */

import { confirmed } from "../ui/confirm.js";

for (const form of document.querySelectorAll("form[data-ask]")) {
  form.addEventListener("submit", async (event) => {
    if (!(form instanceof HTMLFormElement) || !(event instanceof SubmitEvent)) return;
    event.preventDefault();
    const { ask: text = "", title = "", action = "" } = form.dataset;
    if (!await confirmed({ title, text, action })) return;
    // `submit` sends no button's value
    const button = event.submitter;
    if (button instanceof HTMLButtonElement) {
      const value = document.createElement("input");
      value.type = "hidden";
      value.name = button.name;
      value.value = button.value;
      form.append(value);
    }
    form.submit();
  });
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", async () => {
    const field = document.getElementById(/** @type {HTMLElement} */ (button).dataset.copy ?? "");
    if (!field) return;
    if (field instanceof HTMLInputElement) field.select();
    else getSelection()?.selectAllChildren(field);
    try {
      await navigator.clipboard.writeText(field instanceof HTMLInputElement ? field.value : field.textContent ?? "");
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected: copy it with your keys"; // no clipboard without TLS
    }
  });
}

for (const leash of document.querySelectorAll("details.leash")) {
  leash.addEventListener("change", () => {
    const scope = leash.closest("form")?.elements.namedItem("scope");
    if (scope instanceof HTMLSelectElement) scope.value = "leash";
  });
}
