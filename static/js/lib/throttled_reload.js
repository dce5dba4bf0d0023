/**
 * Takes a chart's data anew when frames say that it changed: at most once in a pause, only while somebody looks. What
 * could not be taken for now is asked for again after the pause: the frame that told of it does not come again.
 */

import { mayPass } from "./rest.js";

export class ThrottledReload {
  /**
   * @param {() => Promise<unknown>} load
   * @param {number} pause  milliseconds between two loads
   */
  constructor(load, pause) {
    this.load = load;
    this.pause = pause;
    this.wanted = false;
    this.loading = false;
    /** By the page's own clock: that of the machine may be set back. */
    this.ready = 0;
    document.addEventListener("visibilitychange", () => this.go());
  }

  /** Something changed. */
  ask() {
    this.wanted = true;
    this.go();
  }

  /** The data is new as of now. */
  loaded() {
    this.ready = performance.now() + this.pause;
  }

  go() {
    if (!this.wanted || this.loading || document.visibilityState !== "visible") return;
    const left = this.ready - performance.now();
    if (left > 0) {
      this.timer ??= setTimeout(() => {
        this.timer = undefined;
        this.go();
      }, left);
      return;
    }
    this.wanted = false;
    this.loading = true;
    this.load().catch((error) => {
      this.wanted ||= mayPass(error);
    }).finally(() => {
      this.loading = false;
      this.loaded();
      this.go();
    });
  }
}
