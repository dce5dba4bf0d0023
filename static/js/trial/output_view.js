/** A stream of output that grows: follows its end, shows gaps, fetches what was before, is searched. */

import { byteSize } from "../lib/byte_size.js";
import { OutputSearch } from "./output_search.js";
import { rest } from "../lib/rest.js";
import { withoutTerminalCodes } from "../lib/terminal_text.js";

/** Characters kept on the page while output comes; older ones are in the download. */
const MOST_CHARACTERS = 400_000;
/** Bytes fetched at once of what was before. */
const EARLIER = 256 * 1024;

export class OutputView {
  /**
   * @param {HTMLElement} section
   * @param {{begins: number, next: number}} shown  bytes that are on the page already
   * @param {(stream: string, offset: number, limit: number) => Promise<any>} fetchPart  of the same attempt
   */
  constructor(section, shown, fetchPart) {
    this.stream = section.dataset.stream ?? "";
    this.pre = /** @type {HTMLPreElement} */ (section.querySelector("pre"));
    this.nothing = /** @type {HTMLElement} */ (section.querySelector("[data-nothing]"));
    this.follow = /** @type {HTMLInputElement} */ (section.querySelector("[data-follow]"));
    this.earlier = /** @type {HTMLButtonElement} */ (section.querySelector("[data-earlier]"));
    this.begins = shown.begins;
    this.nextOffset = shown.next;
    this.fetchPart = fetchPart;
    this.decoder = new TextDecoder();
    this.pre.hidden = !this.nothing.hidden;
    this.search = new OutputSearch(section, this.pre, () => {
      this.follow.checked = false;
    });
    this.toEnd();
    this.follow.addEventListener("change", () => this.toEnd());
    this.earlier.addEventListener("click", () => this.showEarlier());
    this.pre.addEventListener("scroll", () => {
      // scrolling up lets go, scrolling to the end takes hold again
      this.follow.checked = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < 24;
    });
  }

  toEnd() {
    if (this.follow.checked) this.pre.scrollTop = this.pre.scrollHeight;
  }

  /** Another attempt writes from its own beginning. */
  restart() {
    this.pre.replaceChildren();
    this.begins = this.nextOffset = 0;
    this.decoder = new TextDecoder();
    this.earlier.hidden = true;
    this.search.changed();
  }

  /**
   * @param {{offset: number, skipped: number, base64: string}} piece
   */
  take(piece) {
    let bytes = Uint8Array.from(atob(piece.base64), (character) => character.charCodeAt(0));
    if (piece.offset < this.nextOffset) bytes = bytes.subarray(this.nextOffset - piece.offset);
    if (bytes.length === 0) return;
    if (piece.skipped && piece.offset > this.nextOffset) this.pre.append(gap(piece.skipped), "\n");
    this.pre.append(withoutTerminalCodes(this.decoder.decode(bytes, { stream: true })));
    this.nextOffset = Math.max(piece.offset, this.nextOffset) + bytes.length;
    let length = this.pre.textContent?.length ?? 0;
    while (length > MOST_CHARACTERS && this.pre.firstChild && this.pre.childNodes.length > 1) {
      length -= this.pre.firstChild.textContent?.length ?? 0;
      this.pre.firstChild.remove();
      this.earlier.hidden = true; // where the page's text begins is not known any more: it is all in the download
    }
    this.pre.hidden = false;
    this.nothing.hidden = true;
    this.toEnd();
    this.search.changed();
  }

  async showEarlier() {
    this.earlier.disabled = true;
    // no piece is so small that it may hold less than a character
    const from = this.begins < EARLIER + 4 ? 0 : this.begins - EARLIER;
    try {
      const part = await this.fetchPart(this.stream, from, this.begins - from);
      const nodes = [];
      let position = 0;
      for (const missing of part.gaps) {
        nodes.push(withoutTerminalCodes(part.text.slice(position, missing.position)), gap(missing.skipped), "\n");
        position = missing.position;
      }
      nodes.push(withoutTerminalCodes(part.text.slice(position)));
      const fromEnd = this.pre.scrollHeight - this.pre.scrollTop;
      this.pre.prepend(...nodes);
      this.pre.scrollTop = this.pre.scrollHeight - fromEnd; // what was read stays where it is
      this.begins = from;
      this.earlier.hidden = from === 0;
      this.earlier.textContent = `Show ${byteSize(from)} from before this`;
      this.search.changed();
    } catch (error) {
      this.earlier.textContent = `It could not be fetched (${error instanceof Error ? error.message : error}). Try again`;
    }
    this.earlier.disabled = false;
  }
}

/** @param {number} bytes */
function gap(bytes) {
  const place = document.createElement("span");
  place.className = "gap";
  place.textContent = `${byteSize(bytes)} stayed on the trial machine`;
  return place;
}
