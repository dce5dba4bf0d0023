/**
 * Menus (details.menu) and panels (details.panel): Escape and a click elsewhere close them, and what is chosen closes a
 * menu of actions. One menu is open at a time.
 */

/** @param {Element | null} [except] */
export function closeMenus(except = null) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.removeAttribute("open");
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  closeMenus(target?.closest("details.menu") ?? null);
  if (target?.closest(".menu.of-actions button, .menu.of-actions a[href]")) closeMenus();
  for (const panel of document.querySelectorAll("details.panel[open]")) if (!panel.contains(target)) panel.removeAttribute("open");
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const opened = document.activeElement?.closest("details:is(.menu, .panel)[open]");
  if (!opened) return;
  opened.removeAttribute("open");
  opened.querySelector("summary")?.focus();
});
