/** Menus of actions (details.menu): one is open at a time; Escape, a click elsewhere and what is chosen close it. */

/** @param {Element | null} [except] */
export function closeMenus(except = null) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.removeAttribute("open");
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  closeMenus(target?.closest("details.menu") ?? null);
  if (target?.closest(".menu.of-actions button, .menu.of-actions a[href]")) closeMenus();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.activeElement?.closest("details.menu[open]");
  if (!menu) return;
  menu.removeAttribute("open");
  menu.querySelector("summary")?.focus();
});
