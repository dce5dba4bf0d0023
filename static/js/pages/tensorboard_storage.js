/** For TensorBoard's pages, which have no origin and so neither storage nor cookies: what stands in for both, as long as the page. */

(() => {
  /** @returns {Storage} */
  function storage() {
    /** @type {Map<string, string>} */
    const kept = new Map();
    return /** @type {any} */ ({
      get length() {
        return kept.size;
      },
      clear: () => kept.clear(),
      getItem: (/** @type {unknown} */ key) => kept.get(String(key)) ?? null,
      key: (/** @type {number} */ index) => [...kept.keys()][index] ?? null,
      removeItem: (/** @type {unknown} */ key) => void kept.delete(String(key)),
      setItem: (/** @type {unknown} */ key, /** @type {unknown} */ value) => void kept.set(String(key), String(value)),
    });
  }
  for (const name of ["localStorage", "sessionStorage"]) {
    Object.defineProperty(window, name, { value: storage(), configurable: true });
  }
  // with it charts are drawn by a worker, and pages without an origin may load none; without it, by the page
  delete (/** @type {any} */ (window).OffscreenCanvas);
  Object.defineProperty(document, "cookie", { get: () => "", set: () => {}, configurable: true });
})();
