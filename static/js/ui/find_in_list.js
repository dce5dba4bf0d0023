/** A search box over a long list of choices: those that have the words stay. It is shown where there are many. */

/** With fewer choices than this nobody needs to search. */
const FEW = 12;

/**
 * @param {HTMLInputElement} box  its `data-find-in` is the id of the list, its `data-find-what` the selector of what is
 *   found there: labels unless it says otherwise
 */
export function findInList(box) {
  const list = /** @type {HTMLElement} */ (document.getElementById(box.dataset.findIn ?? ""));
  const choices = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll(box.dataset.findWhat ?? "label")]);
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/);
    for (const choice of choices()) {
      const text = (choice.getAttribute("aria-label") ?? choice.textContent ?? "").toLowerCase();
      choice.hidden = !words.every((word) => text.includes(word));
    }
  };
  const offer = () => {
    box.hidden = choices().length < FEW;
    show();
  };
  box.addEventListener("input", show);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault(); // it is no field of the form around it
    if (event.key !== "Escape" || !box.value) return;
    event.stopPropagation(); // clears the box; the next one closes what it stands in
    event.preventDefault();
    box.value = "";
    show();
  });
  new MutationObserver(offer).observe(list, { childList: true });
  offer();
}
