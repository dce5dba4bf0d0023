/** Draws the REST interface's description with Redoc, whose bundle has been loaded before. */

const place = /** @type {HTMLElement} */ (document.getElementById("reference"));

/** Redoc has no option that leaves out its maker's logo, which would be fetched from elsewhere: such pictures stay empty. */
const source = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, "src"));
Object.defineProperty(HTMLImageElement.prototype, "src", {
  ...source,
  set(value) {
    if (new URL(value, location.href).origin === location.origin) source.set?.call(this, value);
    else this.hidden = true;
  },
});
HTMLImageElement.prototype.setAttribute = function setAttribute(name, value) { // React does both
  if (name === "src") this.src = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

// @ts-ignore  the bundle's global
if (typeof Redoc === "undefined") {
  place.textContent = "Redoc is not installed on this server; the installation is incomplete.";
} else {
  // @ts-ignore
  Redoc.init(place.dataset.schema, {
    // it would need a worker from a blob, which the policy forbids; the browser's own search finds as much
    disableSearch: true,
    hideDownloadButton: true, nativeScrollbars: true,
    theme: {
      colors: { primary: { main: "#2459c4" }, text: { primary: "#1b1f27", secondary: "#5a6272" }, success: { main: "#1f7a3f" }, error: { main: "#b3261e" } },
      typography: {
        fontSize: "15px", fontFamily: "system-ui, sans-serif", headings: { fontFamily: "system-ui, sans-serif", fontWeight: "650" },
        code: { fontFamily: "ui-monospace, monospace" },
      },
      sidebar: { backgroundColor: "#f5f6f8", textColor: "#1b1f27" },
    },
  }, place);
}
