/**
 * One websocket for the whole page: says what the page watches, hands out what changed, comes back by
 * itself after a break, and keeps the light in the header (#live). The protocol is docs/live-protocol.md.
 *
 *     import { live } from "./live.js";
 *     live.watch("experiment/pmtlfy42ghbz", revision, (frame) => { ... });
 *
 * A handler gets each frame of its topic: `frame.gone` where the thing is gone, `frame.complete === false`
 * where more changed than a frame carries (fetch the rows over REST). Revisions are kept here: after a
 * break each topic is asked for with the last one seen. The list of experiments has none (`live.watchList`):
 * the page tells the revisions of the rows it shows, and the handler is called with `{again: true}` after a break.
 */

import { clock } from "./clock.js";

/** Closing code: nobody is signed in any more. */
const NOT_SIGNED_IN = 4401;
/** Pauses before connecting again, in milliseconds: doubled each time, up to the longest. */
const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 15_000;
/** After so long without a message the connection is given up: a machine that lost its power does not end it. */
const LONGEST_SILENCE = 45_000;
/** After so long without a connection the page says since when it is stale. */
const STALE_AFTER = 8_000;

/** Event of the document: the connection is there, or there again. */
export const CONNECTED = "nniweb-connected";

/** @typedef {{since: number, rows?: () => Record<string, number>, handler: (frame: any) => void}} Watch */

export class Live {
  /** @param {HTMLElement | null} light  where to say how fresh the page is */
  constructor(light) {
    this.light = light;
    /** @type {Map<string, Watch>} */
    this.watches = new Map();
    /** @type {WebSocket | null} */
    this.socket = null;
    this.failures = 0;
    /** When the connection was lost; null while there is one, and before the first. @type {Date | null} */
    this.lostAt = null;
    this.everConnected = false;
    this.signedOut = false;
    /** @type {number | undefined} */
    this.retry = undefined;
    /** @type {number | undefined} */
    this.staleTimer = undefined;
    /** @type {number | undefined} */
    this.silenceTimer = undefined;
    window.addEventListener("online", () => this.connectNow());
    window.addEventListener("offline", () => this.socket?.close());
    window.addEventListener("pageshow", (event) => event.persisted && this.connectNow());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && !this.socket) this.connectNow();
    });
  }

  /**
   * Watch a topic from a revision on.
   * @param {string} topic
   * @param {number} since  the revision the page shows
   * @param {(frame: any) => void} handler
   */
  watch(topic, since, handler) {
    this.begin(topic, { since, handler });
  }

  /**
   * Watch the list of experiments.
   * @param {() => Record<string, number>} rows  ids and revisions of the rows that are shown
   * @param {(frame: any) => void} handler
   */
  watchList(rows, handler) {
    this.begin("experiments", { since: 0, rows, handler });
  }

  /**
   * @param {string} topic
   * @param {Watch} watch
   */
  begin(topic, watch) {
    this.watches.set(topic, watch);
    if (this.socket?.readyState === WebSocket.OPEN) this.ask(topic);
    else if (!this.socket && this.retry === undefined) this.connect();
  }

  /** @param {string} topic */
  ask(topic) {
    const watch = this.watches.get(topic);
    if (watch) this.socket?.send(JSON.stringify({ watch: topic, since: watch.since, rows: watch.rows?.() }));
  }

  connectNow() {
    if (this.watches.size === 0 || this.signedOut) return;
    clearTimeout(this.retry);
    this.retry = undefined;
    this.failures = 0;
    if (!this.socket) this.connect();
  }

  connect() {
    if (!this.everConnected) this.show("connecting", "◌", "connecting");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/live/`);
    this.socket = socket;
    this.listen(socket);
    socket.addEventListener("open", () => {
      for (const topic of this.watches.keys()) this.ask(topic);
    });
    socket.addEventListener("message", (event) => {
      if (this.socket !== socket) return; // given up
      this.listen(socket);
      this.heard(JSON.parse(event.data));
    });
    socket.addEventListener("close", (event) => this.closed(socket, event.code));
  }

  /** From now on the server has so long to say something. @param {WebSocket} socket */
  listen(socket) {
    clearTimeout(this.silenceTimer);
    this.silenceTimer = setTimeout(() => {
      this.closed(socket, 0);
      socket.close();
    }, LONGEST_SILENCE);
  }

  /** @param {any} frame */
  heard(frame) {
    if (frame.hello) {
      // accepted and signed in: from here on the page is as fresh as the server
      const again = this.everConnected;
      this.failures = 0;
      this.lostAt = null;
      this.everConnected = true;
      clearTimeout(this.staleTimer);
      this.show("live", "●", "live");
      document.dispatchEvent(new Event(CONNECTED));
      if (again) this.watches.get("experiments")?.handler({ topic: "experiments", again: true });
      return;
    }
    const watch = this.watches.get(frame.topic);
    if (!watch) return;
    if (frame.revision !== undefined) {
      if (frame.revision < watch.since && frame.since > 0) return; // older than what is shown
      watch.since = frame.revision;
    }
    if (frame.gone === true) this.watches.delete(frame.topic);
    if (frame.trouble !== undefined) showTrouble(frame.trouble);
    watch.handler(frame);
  }

  /**
   * @param {WebSocket} socket
   * @param {number} code
   */
  closed(socket, code) {
    if (this.socket !== socket) return;
    this.socket = null;
    clearTimeout(this.silenceTimer);
    if (code === NOT_SIGNED_IN) {
      this.signedOut = true;
      clearTimeout(this.staleTimer);
      this.showSignedOut();
      return;
    }
    if (!this.lostAt) {
      this.lostAt = new Date();
      this.show("reconnecting", "◌", "reconnecting");
      this.staleTimer = setTimeout(() => this.showStale(), STALE_AFTER);
    }
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.failures) * (0.5 + Math.random() / 2);
    this.failures += 1;
    this.retry = setTimeout(() => {
      this.retry = undefined;
      this.connect();
    }, pause);
  }

  showStale() {
    const since = this.lostAt ?? new Date();
    this.show("stale", "◇", `stale since ${clock(since)}`, "The server does not answer. This page shows its last data. "
      + "It updates automatically when the server answers again.");
  }

  showSignedOut() {
    if (!this.light) return;
    this.show("stale", "◇", "");
    const link = document.createElement("a");
    link.href = `/sign-in/?next=${encodeURIComponent(location.pathname + location.search)}`;
    link.textContent = "signed out – sign in";
    this.light.append(link);
  }

  /**
   * @param {string} state
   * @param {string} icon
   * @param {string} words
   * @param {string} [title]
   */
  show(state, icon, words, title = "") {
    if (!this.light) return;
    const mark = document.createElement("span");
    mark.setAttribute("aria-hidden", "true");
    mark.textContent = `${icon} `;
    this.light.replaceChildren(mark, words);
    this.light.dataset.state = state;
    this.light.title = title;
    this.light.hidden = false;
  }
}

/**
 * What is wrong with the whole installation (a full disk), above every page.
 * @param {string} text
 */
function showTrouble(text) {
  const notice = document.getElementById("trouble");
  if (!notice) return;
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = !text;
}

/** The page's one connection. */
export const live = new Live(document.getElementById("live"));
