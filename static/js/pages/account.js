/** The page of one's account: asks before a token is removed, copies a new one and the first lines with it. */

import { confirmed } from "../ui/confirm.js";

for (const form of document.querySelectorAll("form[data-ask]")) {
  form.addEventListener("submit", async (event) => {
    if (!(form instanceof HTMLFormElement) || !(event instanceof SubmitEvent)) return;
    event.preventDefault();
    const text = form.dataset.ask ?? "";
    if (!await confirmed({ title: "Remove the token?", text, action: "Remove it" })) return;
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
