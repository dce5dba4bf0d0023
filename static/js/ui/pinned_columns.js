/**
 * The first columns of a table stay while its box scrolls sideways: cells of the classes pin-0, pin-1 and pin-2 stop
 * side by side. Where, only the widths of the columns tell.
 */

/** @type {WeakSet<Element>} */
const watched = new WeakSet();

const widths = new ResizeObserver((entries) => {
  const tables = new Set();
  for (const { target } of entries) {
    if (target.isConnected) tables.add(target.closest("table"));
    else widths.unobserve(target); // another table stands there now
  }
  tables.forEach(place);
});

/** @param {HTMLTableElement} table */
function place(table) {
  const box = /** @type {HTMLElement} */ (table.parentElement); // it stays when the table is made anew
  let left = 0;
  // thousands of cells depend on these: all is read before anything is written, and only what is new is written
  const places = [0, 1, 2].map((pin) => {
    const here = `${left}px`;
    const heading = table.tHead?.querySelector(`.pin-${pin}`);
    if (heading instanceof HTMLElement) left += heading.offsetWidth;
    return [`--pin-${pin}`, here];
  });
  for (const [name, value] of places) if (box.style.getPropertyValue(name) !== value) box.style.setProperty(name, value);
}

/** Every such table of the page; again after a table was made anew. */
export function pinColumns() {
  for (const heading of document.querySelectorAll("thead [class*=pin-]")) {
    if (watched.has(heading)) continue;
    watched.add(heading);
    widths.observe(heading); // tells its width at once, too
  }
}
