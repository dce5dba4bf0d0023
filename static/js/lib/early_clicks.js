/**
 * A click on a button before the page's scripts have run is repeated when they have. It is no module, so that it runs
 * before the buttons are drawn; modules run, with all that they import, before DOMContentLoaded.
 */
(() => {
  /** @type {HTMLButtonElement | null} */
  let clicked = null;

  /** @param {MouseEvent} event */
  const keep = (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (button?.type !== "button") return; // the browser itself submits forms and opens menus
    clicked?.removeAttribute("aria-busy");
    clicked = button;
    button.setAttribute("aria-busy", "true");
  };

  document.addEventListener("click", keep, true);
  document.addEventListener("DOMContentLoaded", () => {
    document.removeEventListener("click", keep, true);
    clicked?.removeAttribute("aria-busy");
    clicked?.click();
  });
})();
