/**
 * The clusters' pages. They hold no state of their own: when something changed, the page is fetched again
 * and its part #fresh is put in place, at most every two seconds.
 */

import { live } from "./live.js";

/** Shortest pause between two fetches, in milliseconds. */
const PAUSE = 2000;

let waiting = false;
let lastFetch = 0;

/** Fetch what is shown again, soon; calls in the meantime are one. */
function refresh() {
  if (waiting) return;
  waiting = true;
  setTimeout(async () => {
    waiting = false;
    lastFetch = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { "X-Requested-With": "fetch" } });
      if (answer.ok && !answer.redirected) put(await answer.text());
    } catch {
      // the server is away: the light says so, and the page is fetched when it is back
    }
  }, Math.max(0, PAUSE - (Date.now() - lastFetch)));
}

/** @param {string} html  the whole page */
function put(html) {
  const now = document.getElementById("fresh");
  const next = new DOMParser().parseFromString(html, "text/html").getElementById("fresh");
  if (!now || !next) return;
  const focused = document.activeElement instanceof HTMLAnchorElement && now.contains(document.activeElement)
    ? document.activeElement.getAttribute("href") : null;
  now.replaceChildren(...next.childNodes);
  localTimes();
  if (focused) /** @type {HTMLElement | null} */ (now.querySelector(`a[href="${CSS.escape(focused)}"]`))?.focus();
}

/** Times in the reader's own time zone, the full time on hover. */
function localTimes() {
  for (const time of document.querySelectorAll("#fresh time[datetime]")) {
    const at = new Date(time.getAttribute("datetime") ?? "");
    if (Number.isNaN(at.getTime())) continue;
    const today = at.toDateString() === new Date().toDateString();
    time.textContent = today ? at.toLocaleTimeString() : at.toLocaleString([], { dateStyle: "medium",
      timeStyle: "short" });
    /** @type {HTMLElement} */ (time).title = at.toLocaleString([], { dateStyle: "full", timeStyle: "long" });
  }
}

// --- rehearse --------------------------------------------------------------------------------

/**
 * One unsafe REST call. Resolves to the answer's JSON; rejects with sentences for a person.
 * @param {HTMLElement} button  has the address and the CSRF token
 * @param {string} method
 * @param {object} [body]
 */
async function call(button, method, body) {
  let answer;
  try {
    answer = await fetch(button.dataset.address ?? "", {
      method, headers: { "Content-Type": "application/json", "X-CSRFToken": button.dataset.csrf ?? "" },
      body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. Try again.");
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok) return found;
  const sentences = (found?.errors ?? []).map((/** @type {{message: string}} */ error) => error.message);
  throw new Error(sentences.join(" ") || `The server could not do this (${answer.status}).`);
}

/** @param {{ok: boolean, temporary: boolean, message: string, machine: string}} finding */
function sentence(finding) {
  const [kind, icon, word] = finding.ok ? ["good", "✔", "Good:"]
    : finding.temporary ? ["wait", "!", "May pass by itself:"] : ["bad", "✖", "Wrong:"];
  const item = document.createElement("li");
  item.className = kind;
  const mark = document.createElement("span");
  mark.className = "icon";
  mark.setAttribute("aria-hidden", "true");
  mark.textContent = icon;
  const words = document.createElement("span");
  const hidden = document.createElement("span");
  hidden.className = "visually-hidden";
  hidden.textContent = `${word} `;
  words.append(hidden, finding.message);
  if (finding.machine) {
    const machine = document.createElement("span");
    machine.className = "quiet small";
    machine.textContent = ` ${finding.machine}`;
    words.append(machine);
  }
  item.append(mark, words);
  return item;
}

const doing = document.getElementById("doing");
const progress = document.getElementById("progress");
const findings = document.getElementById("findings");

/** @param {string} words */
function say(words) {
  if (!doing) return;
  doing.textContent = words;
  doing.hidden = words === "";
}

const rehearse = /** @type {HTMLButtonElement | null} */ (document.getElementById("rehearse"));
rehearse?.addEventListener("click", async () => {
  if (!progress || !findings) return;
  rehearse.disabled = true;
  progress.hidden = false;
  findings.hidden = true;
  const began = Date.now();
  const tell = () => say(`Rehearsing: connection, disk, GPUs, a trial that does nothing … `
    + `${Math.round((Date.now() - began) / 1000)} s`);
  tell();
  const clock = setInterval(tell, 1000);
  try {
    const found = await call(rehearse, "POST");
    findings.replaceChildren(...found.map(sentence));
    findings.hidden = false;
    const wrong = found.filter((/** @type {{ok: boolean}} */ finding) => !finding.ok).length;
    const seconds = ((Date.now() - began) / 1000).toFixed(1);
    say(wrong ? `${wrong} of ${found.length} checks found something wrong.`
      : `All ${found.length} checks are good (${seconds} s).`);
  } catch (error) {
    say(/** @type {Error} */ (error).message);
  } finally {
    clearInterval(clock);
    progress.hidden = true;
    rehearse.disabled = false;
  }
});

// --- enable and disable ----------------------------------------------------------------------

const enable = /** @type {HTMLButtonElement | null} */ (document.getElementById("enable"));
const disable = /** @type {HTMLDialogElement | null} */ (document.getElementById("disable"));

/** @param {boolean} enabled */
async function setEnabled(enabled) {
  if (!enable) return;
  enable.disabled = true;
  try {
    await call(enable, "PATCH", { enabled });
    enable.dataset.enabled = String(enabled);
    enable.textContent = enabled ? "Disable …" : "Enable";
    say("");
    refresh();
  } catch (error) {
    say(/** @type {Error} */ (error).message);
  } finally {
    enable.disabled = false;
  }
}

enable?.addEventListener("click", () => {
  if (enable.dataset.enabled === "false") {
    setEnabled(true);
  } else if (disable) {
    disable.returnValue = "keep";
    disable.showModal();
  }
});
disable?.addEventListener("close", () => disable.returnValue === "disable" && setEnabled(false));

localTimes();
live.watch("experiments", 0, refresh);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
