/** Asks once before something is lost, or before machines are used again. */

/**
 * @param {{title: string, text: string, action: string, loses?: boolean}} question  `action` is the word on the button
 *   that does it; `loses`: false where nothing is lost by it
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text, action, loses = true }) {
  const dialog = document.createElement("dialog");
  const heading = document.createElement("h2");
  heading.id = "confirm-title";
  heading.textContent = title;
  dialog.setAttribute("aria-labelledby", heading.id);
  const words = document.createElement("p");
  words.textContent = text;
  const form = document.createElement("form");
  form.method = "dialog";
  const cancel = document.createElement("button");
  cancel.value = "";
  cancel.textContent = "Cancel";
  const go = document.createElement("button");
  go.value = "yes";
  go.className = loses ? "danger" : "primary";
  go.textContent = action;
  form.append(cancel, go);
  dialog.append(heading, words, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    });
  });
}
