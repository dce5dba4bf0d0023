/** Continues an experiment that has reached a limit: asks how far, raises the limit and resumes. */

import { rest, RestError } from "../../lib/rest.js";

/**
 * The limits that keep an experiment from going on.
 * @param {any} experiment
 */
export function limitsReached({ max_trial_number: trials, max_duration: seconds, progress }) {
  return { trials: trials !== null && progress.total >= trials, time: seconds !== null && progress.elapsed >= seconds };
}

/**
 * @param {string} id  of the experiment
 * @param {() => any} experiment  as it is now
 * @param {(experiment: any) => void} show  called with what it is then
 * @returns {() => void} opens the dialog
 */
export function startMoreDialog(id, experiment, show) {
  const dialog = document.getElementById("more-dialog");
  if (!(dialog instanceof HTMLDialogElement)) return () => {};
  const form = /** @type {HTMLFormElement} */ (dialog.querySelector("form"));
  const error = /** @type {HTMLElement} */ (dialog.querySelector(".error"));
  const button = /** @type {HTMLButtonElement} */ (dialog.querySelector("[data-save]"));
  const input = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.elements.namedItem(name));

  async function run() {
    button.disabled = true;
    error.hidden = true;
    const now = experiment();
    const reached = limitsReached(now);
    try {
      /** @type {Record<string, unknown>} */
      const limits = {};
      if (reached.trials) limits.max_trial_number = now.progress.total + Number(input("trials").value);
      if (reached.time) limits.max_duration = now.progress.elapsed + seconds(input("time").value);
      show(await rest("POST", `experiments/${id}/actions/resume/`, limits));
      dialog.close();
    } catch (problem) {
      error.textContent = problem instanceof RestError ? problem.sentences : problem instanceof Error ? problem.message : String(problem);
      error.hidden = false;
    } finally {
      button.disabled = false;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  return () => {
    const reached = limitsReached(experiment());
    for (const [name, is] of Object.entries(reached)) {
      /** @type {HTMLElement} */ (dialog.querySelector(`[data-limit="${name}"]`)).hidden = !is;
      input(name).disabled = !is;
    }
    error.hidden = true;
    dialog.showModal();
    input(reached.trials ? "trials" : "time").select();
  };
}

/** @param {string} text  such as 90m, 1.5h, or seconds */
function seconds(text) {
  const found = /^(\d+(?:\.\d+)?) *(s|m|h|d)?$/.exec(text.trim());
  if (!found) throw new Error("Write a time such as 30m, 2h or 1d.");
  return Number(found[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[/** @type {"s" | "m" | "h" | "d"} */ (found[2] ?? "s")];
}
