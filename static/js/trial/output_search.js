/** Finds a word in a stream of output. What is found is marked without touching the text, which goes on growing. */

/** Places that are marked; where there are more, the page says so. */
const MOST_PLACES = 1_000;
/** Shortest pause between two searches while output comes, in milliseconds. */
const PAUSE = 250;

export class OutputSearch {
  /**
   * @param {HTMLElement} section
   * @param {HTMLElement} pre  the text
   * @param {() => void} letGo  called before jumping to a place, so that the end is not followed any more
   */
  constructor(section, pre, letGo) {
    this.pre = pre;
    this.letGo = letGo;
    this.name = `found-${section.dataset.stream}`;
    this.field = /** @type {HTMLInputElement} */ (section.querySelector("[data-find]"));
    this.said = /** @type {HTMLElement} */ (section.querySelector("[data-found]"));
    this.back = /** @type {HTMLButtonElement} */ (section.querySelector("[data-find-previous]"));
    this.on = /** @type {HTMLButtonElement} */ (section.querySelector("[data-find-next]"));
    /** @type {Range[]} */
    this.places = [];
    this.current = -1;
    this.asked = false;
    this.field.addEventListener("input", () => this.search(true));
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.go(event.shiftKey ? -1 : 1);
    });
    this.back.addEventListener("click", () => this.go(-1));
    this.on.addEventListener("click", () => this.go(1));
    if (this.field.value) this.search(false);
  }

  /** The text has grown. */
  changed() {
    if (!this.field.value || this.asked) return;
    this.asked = true;
    setTimeout(() => {
      this.asked = false;
      this.search(false);
    }, PAUSE);
  }

  /** @param {boolean} jump  whether to go to the first place */
  search(jump) {
    const words = this.field.value;
    const { places, more } = words ? this.find(words) : { places: [], more: false };
    this.places = places;
    if (jump) this.current = -1;
    this.back.disabled = this.on.disabled = places.length === 0;
    this.more = more;
    if (jump && places.length) this.go(1);
    else this.tell();
  }

  /** @param {string} words  found whatever their case */
  find(words) {
    /** @type {{node: Node, from: number}[]} */
    const nodes = [];
    let text = "";
    const walker = document.createTreeWalker(this.pre, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      nodes.push({ node, from: text.length });
      text += node.textContent ?? "";
    }
    const pattern = new RegExp(words.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "giu");
    const places = [];
    let at = 0;
    for (const match of text.matchAll(pattern)) {
      if (places.length === MOST_PLACES) return { places, more: true };
      const range = document.createRange();
      const end = match.index + match[0].length;
      while (at + 1 < nodes.length && nodes[at + 1].from <= match.index) at += 1;
      let last = at;
      while (last + 1 < nodes.length && nodes[last + 1].from < end) last += 1;
      range.setStart(nodes[at].node, match.index - nodes[at].from);
      range.setEnd(nodes[last].node, end - nodes[last].from);
      places.push(range);
    }
    return { places, more: false };
  }

  /** @param {number} step */
  go(step) {
    if (this.places.length === 0) return;
    this.current = (this.current + step + this.places.length) % this.places.length;
    this.letGo();
    const place = this.places[this.current].getBoundingClientRect();
    const frame = this.pre.getBoundingClientRect();
    this.pre.scrollTop += place.top - frame.top - frame.height / 2;
    this.tell();
  }

  tell() {
    const count = this.places.length;
    const of = `${count}${this.more ? " and more" : ""}`;
    this.said.textContent = !this.field.value ? "" : count === 0 ? "not found" : this.current < 0 ? of : `${this.current + 1} of ${of}`;
    if (!("highlights" in CSS)) return; // an older browser still jumps to the places
    CSS.highlights.set(this.name, new Highlight(...this.places));
    const current = this.places[this.current];
    CSS.highlights.set(`${this.name}-now`, new Highlight(...(current ? [current] : [])));
  }
}
