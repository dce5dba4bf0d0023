/**
 * Menus (details.menu) and panels (details.panel): Escape and a click elsewhere close them, and what is chosen closes a
 * menu of actions. One menu is open at a time, and none lies beyond the edge of the window.
 */

/** Pixels that stay free beside what is open. */
const EDGE = 8;

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
document.addEventListener("toggle", (event) => {
  const opened = event.target instanceof Element && event.target.matches("details:is(.menu, .panel)[open]") ? event.target : null;
  const box = /** @type {HTMLElement | null | undefined} */ (opened?.querySelector(":scope > :is(div, .sheet)"));
  if (!box) return;
  box.style.translate = "";
  const { left, right } = box.getBoundingClientRect();
  const beyond = right + EDGE - document.documentElement.clientWidth;
  const shift = left < EDGE ? EDGE - left : -Math.max(0, Math.min(beyond, left - EDGE));
  if (shift) box.style.translate = `${shift}px`;
}, true);
