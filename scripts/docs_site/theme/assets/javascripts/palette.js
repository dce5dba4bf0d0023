/** Shows the colours that a reader chose before, or those of the system, before the page is drawn. */
const chosen = window.__md_get("__palette")?.color;
if (chosen) {
  if (chosen.media === "(prefers-color-scheme)") {
    const scheme = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
    const input = document.querySelector(`[data-md-color-media='(prefers-color-scheme: ${scheme})']`);
    for (const key of ["media", "scheme", "primary", "accent"]) chosen[key] = input.getAttribute(`data-md-color-${key}`);
  }
  for (const [key, value] of Object.entries(chosen)) document.body.setAttribute(`data-md-color-${key}`, value);
}
