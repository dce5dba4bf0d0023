/**
 * The clusters' pages. They hold no state of their own: when something changed, the parts #fresh and #health are
 * taken anew from the server, at most every two seconds.
 */

import { confirmed } from "./confirm.js";
import { live } from "./live.js";
import { refreshParts, rest, RestError } from "./rest.js";

/** Shortest pause between two readings, in milliseconds. */
const PAUSE = 2000;

let waiting = false;
let lastReading = Date.now();

/** Take what is shown anew, soon; calls in the meantime are one. */
function refresh() {
  if (waiting) return;
  waiting = true;
  setTimeout(async () => {
    waiting = false;
    lastReading = Date.now();
    const focused = document.activeElement?.closest("#fresh a")?.getAttribute("href");
    try {
      await refreshParts(["fresh", "health"]);
    } catch {
      return; // the server is away: the light says so, and a change after its return brings this up to date
    }
    if (focused) {
      /** @type {HTMLElement | null} */ (document.querySelector(`#fresh a[href="${CSS.escape(focused)}"]`))?.focus();
    }
  }, Math.max(0, PAUSE - (Date.now() - lastReading)));
}

const cluster = /** @type {HTMLElement | null} */ (document.getElementById("cluster"));
const doing = document.getElementById("doing");
const progress = document.getElementById("progress");
const findings = document.getElementById("findings");
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

// --- rehearse --------------------------------------------------------------------------------

/**
 * A finding as templates/dashboard/findings.html shows it.
 * @param {{ok: boolean, temporary: boolean, message: string, machine: string}} finding
 */
function sentence(finding) {
  const [kind, icon, word] = finding.ok ? ["good", "✔", "Good:"]
    : finding.temporary ? ["wait", "!", "May pass by itself:"] : ["bad", "✖", "Wrong:"];
  const item = document.createElement("li");
  item.className = kind;
  const words = document.createElement("span");
  words.append(part("visually-hidden", `${word} `), finding.message);
  if (finding.machine) words.append(part("quiet small", ` ${finding.machine}`));
  const mark = part("icon", icon);
  mark.setAttribute("aria-hidden", "true");
  item.append(mark, words);
  return item;
}

/**
 * @param {string} name
 * @param {string} text
 */
function part(name, text) {
  const span = document.createElement("span");
  span.className = name;
  span.textContent = text;
  return span;
}

const rehearse = /** @type {HTMLButtonElement | null} */ (document.getElementById("rehearse"));
rehearse?.addEventListener("click", async () => {
  if (!progress || !findings) return;
  rehearse.disabled = true;
  progress.hidden = false;
  findings.hidden = true;
  const began = Date.now();
  const tell = () => say("Rehearsing: connection, disk, GPUs, a trial that does nothing … "
    + `${Math.round((Date.now() - began) / 1000)} s`);
  tell();
  const clock = setInterval(tell, 1000);
  try {
    const found = await rest("POST", `${path}actions/rehearse/`);
    findings.replaceChildren(...found.map(sentence));
    findings.hidden = false;
    const wrong = found.filter((/** @type {{ok: boolean}} */ finding) => !finding.ok).length;
    say(wrong ? `${wrong} of ${found.length} checks found something wrong.`
      : `All ${found.length} checks are good (${((Date.now() - began) / 1000).toFixed(1)} s).`);
  } catch (error) {
    say(complaint(error));
  } finally {
    clearInterval(clock);
    progress.hidden = true;
    rehearse.disabled = false;
  }
});

// --- enable and disable ----------------------------------------------------------------------

const enable = /** @type {HTMLButtonElement | null} */ (document.getElementById("enable"));
enable?.addEventListener("click", async () => {
  const enabled = enable.dataset.enabled === "false";
  const question = { title: `Disable ${cluster?.dataset.name}?`, text: enable.dataset.loss ?? "", action: "Disable" };
  if (!enabled && !await confirmed(question)) return;
  enable.disabled = true;
  try {
    await rest("PATCH", path, { enabled });
    enable.dataset.enabled = String(enabled);
    enable.textContent = enabled ? "Disable …" : "Enable";
    say("");
    refresh();
  } catch (error) {
    say(complaint(error));
  } finally {
    enable.disabled = false;
  }
});

live.watchList(() => ({}), refresh);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
