/**
 * The names over the axes of the parallel coordinates, as buttons: dragged, or moved by arrow keys, an axis gets another
 * place among the others; Delete takes it away. The result's axis is the last one, always.
 */

import { breaking, namesInLines } from "../../lib/names.js";

/** Lines of a name, and what is left and right of them in pixels: border and padding. */
const LINES = 2;
const BESIDE = 6;
/** Pixels of a name at most, however far the next axis is. */
const WIDEST = 116;
/** Less than this many pixels is a click. */
const DRAG = 4;
/** Pixels from an end of the frame where a dragged axis makes it scroll, and how far at once. */
const EDGE = 24;

/** @typedef {{left: number, step: number, first: number, names: string[]}} Place  of the axes that are seen, in pixels and by number */

export class AxisHeads {
  /**
   * @param {HTMLElement} element
   * @param {{title: (name: string) => string, result: () => string, move: (name: string, to: number) => void,
   *   remove: (name: string) => void, scroll: (by: number) => void}} axes  `move` gets the number among all axes
   */
  constructor(element, axes) {
    this.element = element;
    this.axes = axes;
    /** @type {Place} */
    this.place = { left: 0, step: 1, first: 0, names: [] };
    /** What is dragged. @type {{name: string, button: HTMLElement, from: number, moved: boolean} | null} */
    this.drag = null;
    this.pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    /** The names as they are shown, and for which names and width. @type {{of: string, names: string[]}} */
    this.short = { of: "", names: [] };
    this.result = document.createElement("span");
    this.result.className = "axis-head";
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("pointerdown", (event) => this.grasp(event));
    element.addEventListener("pointermove", (event) => this.pull(event));
    element.addEventListener("pointerup", (event) => this.drop(event));
    element.addEventListener("pointercancel", () => this.letGo());
  }

  /** Of a name, in pixels. */
  get width() {
    return Math.min(WIDEST, this.place.step - 6);
  }

  /** @returns {HTMLElement[]} */
  get buttons() {
    return [...this.element.querySelectorAll("button")];
  }

  /**
   * @param {Place} place
   * @param {string[]} all  names of all axes, in their order: no two of them read alike
   */
  draw(place, all) {
    this.place = place;
    const short = this.shortened(all.map((name) => this.axes.title(name)));
    const focused = document.activeElement instanceof HTMLElement && this.element.contains(document.activeElement) ? document.activeElement.dataset.name : undefined;
    const known = new Map(this.buttons.map((button) => [button.dataset.name, button]));
    const heads = place.names.map((name, index) => {
      const button = known.get(name) ?? this.button(name);
      const title = this.axes.title(name);
      button.title = title;
      /** @type {Element} */ (button.firstElementChild).replaceChildren(...breaking(short[place.first + index]));
      /** @type {Element} */ (button.lastElementChild).textContent = `${title}, axis ${place.first + index + 1} of ${all.length}`;
      this.stand(button, index);
      return button;
    });
    this.result.textContent = this.axes.result();
    this.result.title = this.axes.result();
    this.stand(this.result, heads.length);
    const now = [...heads, this.result];
    // what is dragged or focused stays in the page
    if (now.length !== this.element.children.length || now.some((head, index) => this.element.children[index] !== head)) this.element.replaceChildren(...now);
    if (focused !== undefined) this.buttons.find((button) => button.dataset.name === focused)?.focus({ preventScroll: true });
  }

  /** With as much of each as has room, measured in the font of the page. @param {string[]} titles */
  shortened(titles) {
    const of = JSON.stringify([this.width, titles]);
    if (this.short.of !== of) {
      if (!this.result.isConnected) this.element.append(this.result); // outside the page it has no font
      this.pen.font = getComputedStyle(this.result).font;
      this.short = { of, names: namesInLines(titles, LINES, this.width - BESIDE, (text) => this.pen.measureText(text).width) };
    }
    return this.short.names;
  }

  /** @param {string} name */
  button(name) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "axis-head";
    button.dataset.name = name;
    button.setAttribute("aria-describedby", "axis-hint");
    const [seen, said] = [document.createElement("span"), document.createElement("span")];
    seen.setAttribute("aria-hidden", "true");
    said.className = "visually-hidden";
    button.append(seen, said);
    return button;
  }

  /**
   * @param {HTMLElement} head
   * @param {number} index
   */
  stand(head, index) {
    head.style.left = `${this.place.left + index * this.place.step}px`;
    head.style.width = `${this.width}px`;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && this.drag) {
      this.letGo();
      return;
    }
    const name = button.dataset.name ?? "";
    const now = this.place.first + this.place.names.indexOf(name);
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: Infinity }[event.key];
    if (to === undefined && event.key !== "Delete") return;
    event.preventDefault(); // the frame would scroll
    if (to !== undefined) {
      this.axes.move(name, to);
      return;
    }
    const beside = button.nextElementSibling?.matches("button") ? button.nextElementSibling : button.previousElementSibling;
    if (beside instanceof HTMLElement) beside.focus({ preventScroll: true });
    this.axes.remove(name);
  }

  /** @param {PointerEvent} event */
  grasp(event) {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (!button || event.button !== 0) return;
    this.drag = { name: button.dataset.name ?? "", button, from: event.clientX, moved: false };
    button.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  pull(event) {
    if (!this.drag) return;
    this.drag.moved ||= Math.abs(event.clientX - this.drag.from) > DRAG;
    if (!this.drag.moved) return;
    const frame = this.element.getBoundingClientRect();
    const at = event.clientX - frame.left;
    this.drag.button.classList.add("dragged");
    this.drag.button.style.left = `${at}px`;
    if (at < EDGE) this.axes.scroll(-this.place.step);
    else if (at > frame.width - EDGE) this.axes.scroll(this.place.step);
    const over = this.over(at);
    this.buttons.forEach((button, index) => button.classList.toggle("target", index === over && button !== this.drag?.button));
  }

  /**
   * The axis nearest to a place.
   * @param {number} at  in pixels
   */
  over(at) {
    return Math.max(0, Math.min(this.place.names.length - 1, Math.round((at - this.place.left) / this.place.step)));
  }

  /** @param {PointerEvent} event */
  drop(event) {
    const { drag } = this;
    if (!drag) return;
    this.letGo();
    if (drag.moved) this.axes.move(drag.name, this.place.first + this.over(event.clientX - this.element.getBoundingClientRect().left));
  }

  letGo() {
    this.drag = null;
    this.buttons.forEach((button, index) => {
      button.classList.remove("dragged", "target");
      this.stand(button, index);
    });
  }
}
