/** Copies text, and says on the button that it is done. */

/**
 * @param {string} text
 * @param {Element} button  what was used
 */
export async function copyText(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = before;
    }, 2_000);
  } catch {
    await shown(text); // no clipboard without TLS
  }
}

/** The text itself, selected, where the browser does not let a page copy. @param {string} text */
function shown(text) {
  const dialog = document.createElement("dialog");
  const heading = document.createElement("h2");
  heading.textContent = "Copy it with your keys";
  const field = document.createElement("textarea");
  field.value = text;
  field.readOnly = true;
  field.rows = Math.min(12, text.split("\n").length + 1);
  field.setAttribute("aria-label", "Text to copy");
  const close = document.createElement("button");
  close.type = "button";
  close.dataset.close = "";
  close.textContent = "Close";
  dialog.append(heading, field, close);
  document.body.append(dialog);
  dialog.showModal();
  field.select();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.remove()));
  });
}
