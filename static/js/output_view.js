/** A stream of output that grows: follows its end, shows gaps. */

import { withoutTerminalCodes } from "./terminal_text.js";

/** Characters kept on the page; older ones are in the download. */
const MOST_CHARACTERS = 400_000;

export class OutputView {
  /**
   * @param {HTMLElement} section
   * @param {number} nextOffset  bytes shown already
   */
  constructor(section, nextOffset) {
    this.pre = /** @type {HTMLPreElement} */ (section.querySelector("pre"));
    this.nothing = /** @type {HTMLElement} */ (section.querySelector("[data-nothing]"));
    this.follow = /** @type {HTMLInputElement} */ (section.querySelector("[data-follow]"));
    this.nextOffset = nextOffset;
    this.decoder = new TextDecoder();
    this.pre.hidden = !this.nothing.hidden;
    this.toEnd();
    this.follow.addEventListener("change", () => this.toEnd());
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
    this.nextOffset = 0;
    this.decoder = new TextDecoder();
  }

  /**
   * @param {{offset: number, skipped: number, base64: string}} piece
   */
  take(piece) {
    let bytes = Uint8Array.from(atob(piece.base64), (character) => character.charCodeAt(0));
    if (piece.offset < this.nextOffset) bytes = bytes.subarray(this.nextOffset - piece.offset);
    if (bytes.length === 0) return;
    if (piece.skipped && piece.offset > this.nextOffset) {
      const gap = document.createElement("span");
      gap.className = "gap";
      gap.textContent = `${piece.skipped.toLocaleString()} bytes stayed on the trial machine`;
      this.pre.append(gap, "\n");
    }
    this.pre.append(withoutTerminalCodes(this.decoder.decode(bytes, { stream: true })));
    this.nextOffset = Math.max(piece.offset, this.nextOffset) + bytes.length;
    let length = this.pre.textContent?.length ?? 0;
    while (length > MOST_CHARACTERS && this.pre.firstChild && this.pre.childNodes.length > 1) {
      length -= this.pre.firstChild.textContent?.length ?? 0;
      this.pre.firstChild.remove();
    }
    this.pre.hidden = false;
    this.nothing.hidden = true;
    this.toEnd();
  }
}
