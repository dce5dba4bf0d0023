/**
 * The clusters' pages. They hold no state of their own: when something changed, its parts (PARTS) are
 * taken anew from the server, at most every two seconds.
 */

import { confirmed } from "../ui/confirm.js";
import { live } from "../lib/live.js";
import { mayPass, rest, RestError } from "../lib/rest.js";
import { keepWhileSame, refreshParts } from "../ui/refreshed_parts.js";

/** Shortest pause between two readings, in milliseconds. */
const PAUSE = 2000;
/** What may change by itself. */
const PARTS = ["fresh", "health", "enable", "rehearsed", "as-of"];

let waiting = false;
let lastReading = performance.now();

/** Take what is shown anew, soon; calls in the meantime are one. */
function refresh() {
  if (waiting) return;
  waiting = true;
  setTimeout(async () => {
    waiting = false;
    lastReading = performance.now();
    const active = document.activeElement;
    const focused = active?.id === "enable" ? "enable" : active?.closest("#fresh a")?.getAttribute("href");
    try {
      await refreshParts(PARTS);
    } catch (error) {
      if (mayPass(error)) refresh(); // no frame tells of it again
      return;
    }
    const again = focused === "enable" ? "#enable" : `#fresh a[href="${CSS.escape(focused ?? "")}"]`;
    if (focused) /** @type {HTMLElement | null} */ (document.querySelector(again))?.focus();
  }, Math.max(0, PAUSE - (performance.now() - lastReading)));
}

const cluster = /** @type {HTMLElement | null} */ (document.getElementById("cluster"));
const doing = document.getElementById("doing");
const progress = document.getElementById("progress");
const path = `clusters/${cluster?.dataset.id}/`;

/** @param {string} words */
function say(words) {
  if (!doing) return;
  doing.textContent = words;
  doing.hidden = words === "";
}

/** @param {unknown} error */
function complaint(error) {
  return error instanceof RestError ? error.sentences : String(error);
}

// --- test the cluster --------------------------------------------------------------------------------

const rehearse = /** @type {HTMLButtonElement | null} */ (document.getElementById("rehearse"));
rehearse?.addEventListener("click", async () => {
  if (!progress) return;
  rehearse.disabled = true;
  progress.hidden = false;
  const began = performance.now();
  const tell = () => say("Testing: connection, disk, GPUs, a trial that does nothing … "
    + `${Math.round((performance.now() - began) / 1000)} s`);
  tell();
  const clock = setInterval(tell, 1000);
  try {
    const found = await rest("POST", `${path}actions/rehearse/`);
    await refreshParts(["rehearsed"]);
    const wrong = found.filter((/** @type {{ok: boolean}} */ finding) => !finding.ok).length;
    say(wrong ? `${wrong} of ${found.length} checks found something wrong.`
      : `All ${found.length} checks are good (${((performance.now() - began) / 1000).toFixed(1)} s).`);
  } catch (error) {
    say(complaint(error));
  } finally {
    clearInterval(clock);
    progress.hidden = true;
    rehearse.disabled = false;
  }
});

// --- enable and disable ----------------------------------------------------------------------

document.querySelector(".acts")?.addEventListener("click", async (event) => {
  // it is taken anew with the page's other parts
  const enable = event.target instanceof Element ? event.target.closest("#enable") : null;
  if (!(enable instanceof HTMLButtonElement)) return;
  const enabled = enable.dataset.enabled === "false";
  const question = { title: `Disable ${cluster?.dataset.name}?`, text: enable.dataset.loss ?? "", action: "Disable" };
  if (!enabled && !await confirmed(question)) return;
  enable.disabled = true;
  try {
    await rest("PATCH", path, { enabled });
    say("");
    await refreshParts(PARTS);
  } catch (error) {
    say(complaint(error));
  } finally {
    enable.disabled = false;
  }
});

keepWhileSame(PARTS);
live.watch("clusters", 0, refresh);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
