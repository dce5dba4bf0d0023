/** The parameters of the trial that is pointed at in a chart: asked for when somebody stays on a point. */

import { rest } from "../../lib/rest.js";
import { parameter } from "../../lib/formats.js";

/** Milliseconds on a point before its parameters are asked for. */
const STAYS = 120;
/** Trials that are remembered, and parameters that are named. */
const MOST_REMEMBERED = 300;
const MOST_NAMED = 12;

export class PointedAt {
  /** @param {(event: any) => void} known  called when the parameters of the point of this event are known */
  constructor(known) {
    this.known = known;
    /** By id. @type {Map<string, string[]>} */
    this.lines = new Map();
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /**
   * What the tooltip of a trial says of its parameters.
   * @param {string} id
   */
  of(id) {
    return this.lines.get(id) ?? [];
  }

  /**
   * Somebody points at a trial.
   * @param {string} id
   * @param {any} event
   */
  at(id, event) {
    clearTimeout(this.timer);
    if (!this.lines.has(id)) this.timer = setTimeout(() => this.ask(id, event), STAYS);
  }

  away() {
    clearTimeout(this.timer);
  }

  /**
   * @param {string} id
   * @param {any} event
   */
  async ask(id, event) {
    try {
      this.lines.set(id, linesOf((await rest("GET", `trials/${id}/`)).parameters));
    } catch {
      return; // the light says that there is no connection
    }
    if (this.lines.size > MOST_REMEMBERED) this.lines.delete(/** @type {string} */ (this.lines.keys().next().value));
    this.known(event);
  }
}

/**
 * "lr 0.01", a line for each parameter.
 * @param {Record<string, unknown> | null} parameters
 */
export function linesOf(parameters) {
  const all = Object.entries(parameters ?? {}).map(([name, value]) => `${name} ${parameter(value)}`);
  return all.length > MOST_NAMED ? [...all.slice(0, MOST_NAMED), `and ${all.length - MOST_NAMED} more`] : all;
}
