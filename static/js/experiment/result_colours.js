/**
 * From the worst result to the best, in colours that everybody tells apart: the lightness alone already says it, and
 * the best stands out from the page in both themes.
 */

import { colour } from "../charts/chart.js";
import { partOf } from "../lib/part_of.js";

const STEPS = ["--scale-worst", "--scale-low", "--scale-middle", "--scale-high", "--scale-best"];
/** Worse than this part of all is as bad as bad can be: a few wild results would make all others equal. */
const WORST_PART = 0.9;

/** @param {string} text  #rrggbb */
function parts(text) {
  return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
}

export class ResultColours {
  /**
   * @param {number[]} values  of all trials that are drawn
   * @param {boolean} greaterIsBetter
   */
  constructor(values, greaterIsBetter) {
    const best = [...values].sort((one, other) => (greaterIsBetter ? other - one : one - other));
    this.best = best[0] ?? 0;
    this.worst = best[Math.min(best.length - 1, Math.floor(best.length * WORST_PART))] ?? 0;
    this.isClipped = best.length > 0 && best[best.length - 1] !== this.worst;
  }

  /** Colours as they are in the theme of now: ask for them once a drawing. */
  scale() {
    const steps = STEPS.map((name) => parts(colour(name)));
    return {
      /** @param {number} part  0 the worst, 1 the best */
      rgb(part) {
        const at = Math.max(0, Math.min(1, part)) * (steps.length - 1);
        const from = Math.min(steps.length - 2, Math.floor(at));
        return steps[from].map((value, index) => Math.round(value + (at - from) * (steps[from + 1][index] - value)));
      },
      /** @param {number} part */
      css(part) {
        return `rgb(${this.rgb(part).join(",")})`;
      },
    };
  }

  /**
   * 0 the worst, 1 the best.
   * @param {number} value
   */
  part(value) {
    if (this.best === this.worst) return 1;
    return Math.max(0, Math.min(1, partOf(value, this.worst, this.best)));
  }
}
