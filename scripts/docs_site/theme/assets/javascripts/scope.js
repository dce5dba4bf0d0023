/** What the theme keeps in the browser (the colours that a reader chose) and under which address: of this site alone. */
window.__md_scope = new URL(document.currentScript.dataset.base, location);
window.__md_get = (key, storage = localStorage, scope = window.__md_scope) =>
  JSON.parse(storage.getItem(`${scope.pathname}.${key}`));
window.__md_set = (key, value, storage = localStorage, scope = window.__md_scope) => {
  try {
    storage.setItem(`${scope.pathname}.${key}`, JSON.stringify(value));
  } catch { /* a browser that keeps nothing: the choice holds for this page */ }
};
