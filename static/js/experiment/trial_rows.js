/** Rows of trials, wherever they stand in a table: made from the template, filled, and their buttons obeyed. */

import { showError } from "../ui/action_error.js";
import { confirmed } from "../ui/confirm.js";
import { jobsOf, showMessage } from "../ui/named_trials.js";
import { rest } from "../lib/rest.js";
import { showParameterSets } from "../ui/parameter_sets.js";
import { showResult } from "../ui/ranked_results.js";
import { isEnd, showStatus, showText } from "../ui/status.js";
import { digits, duration, mean, parameter, parameterAt } from "../lib/formats.js";
import { moment } from "../ui/times.js";

/** @returns {HTMLTableRowElement} */
export function blankRow() {
  const template = /** @type {HTMLTemplateElement} */ (document.getElementById("trial-row"));
  return /** @type {HTMLTableRowElement} */ (template.content.querySelector("tr")?.cloneNode(true));
}

/**
 * @param {HTMLTableRowElement} row
 * @param {any} trial
 */
export function fillRow(row, trial) {
  const cell = (/** @type {string} */ name) => row.querySelector(`[data-cell="${name}"]`);
  const shown = `${trial.id} ${trial.result_index}`; // of several parameter sets the best one's are shown
  if (row.dataset.id !== trial.id || (row.dataset.shown ?? `${trial.id} 0`) !== shown) {
    row.dataset.id = trial.id;
    row.dataset.shown = shown;
    const link = /** @type {HTMLAnchorElement} */ (cell("number"));
    link.href = `/trials/${trial.id}/`;
    link.textContent = String(trial.sequence_id);
    for (const place of row.querySelectorAll("[data-parameter]")) {
      place.textContent = parameter(parameterAt(trial.parameters, /** @type {HTMLElement} */ (place).dataset.parameter ?? ""));
    }
    row.querySelector("[data-choose]")?.setAttribute("aria-label", `Select trial ${trial.sequence_id}`);
    showMoment(cell("created"), trial.created_at);
    showText(cell("source"), trial.source);
    showText(cell("replicate"), String(trial.proposal?.replicate ?? ""));
    showText(cell("seed"), String(trial.proposal?.seed ?? ""));
    showText(cell("parameters"), Object.entries(trial.parameters ?? {}).map(([name, value]) => `${name} ${parameter(value)}`).join(", "));
  }
  fillCells(cell, trial);
  showParameterSets(cell("sets"), trial);
  fillMetrics(row.querySelectorAll("[data-metric]"), trial);
  const ended = isEnd(trial.status);
  for (const button of row.querySelectorAll("button[data-action]")) {
    if (button instanceof HTMLButtonElement) button.hidden = (button.dataset.action === "cancel") === ended;
  }
  return row;
}

/**
 * Numbers of further metrics.
 * @param {Iterable<Element>} places  each says which metric and which part of it
 * @param {any} trial
 */
export function fillMetrics(places, trial) {
  for (const place of places) {
    const { metric, part } = /** @type {HTMLElement} */ (place).dataset;
    const number = trial.metrics[metric ?? ""]?.[part ?? ""] ?? null;
    /** @type {HTMLElement} */ (place).dataset.number = String(number ?? "");
    showText(place, number === null ? "" : digits(number));
  }
}

/**
 * What of a trial changes while it lives, wherever it stands.
 * @param {(name: string) => Element | null} cell  null for what is not shown
 * @param {any} trial
 */
export function fillCells(cell, trial) {
  showStatus(cell("status"), trial.status);
  showResult(cell("result"), trial.final_number);
  showText(cell("feasible"), trial.feasible === false ? "infeasible" : "");
  showText(cell("mean"), mean(trial));
  showText(cell("begun"), String(trial.proposal?.begun ?? ""));
  showText(cell("front"), trial.on_front ? "★ front" : "");
  showText(cell("latest"), trial.intermediate_count ? digits(trial.latest_number) : "");
  showText(cell("duration"), duration(trial.duration));
  showText(cell("intermediates"), String(trial.intermediate_count));
  showText(cell("cluster"), trial.cluster);
  showText(cell("machine"), trial.machine);
  showText(cell("gpu"), (trial.gpu_indices ?? []).join(", "));
  showText(cell("variant"), trial.variant ? trial.variant.sha256.slice(0, 8) : "");
  showText(cell("attempt"), String(trial.attempt));
  showText(cell("exit_code"), String(trial.exit_code ?? ""));
  showMoment(cell("started"), trial.started_at);
  showMoment(cell("ended"), trial.ended_at);
  showTags(cell("tags"), trial.tags);
  const why = cell("message"); // a short table has none
  if (why?.getAttribute("data-said") !== trial.message) why?.setAttribute("title", trial.message);
  showMessage(why, trial.message, jobsOf(trial.reason));
}

/**
 * @param {Element | null} place
 * @param {string | null} at
 */
function showMoment(place, at) {
  if (place && (place.querySelector("time")?.dateTime ?? "") !== (at ?? "")) place.replaceChildren(moment(at));
}

/**
 * @param {Element | null} place
 * @param {string[]} tags
 */
function showTags(place, tags) {
  if (!place || [...place.children].map((tag) => tag.textContent).join("\n") === tags.join("\n")) return;
  place.replaceChildren(...tags.flatMap((text) => {
    const tag = document.createElement("span");
    tag.className = "tag";
    tag.textContent = text;
    return [tag, " "];
  }));
}

/**
 * Obey the buttons of the rows below an element; `done` gets the trial that came of it.
 * @param {Element} element
 * @param {(trial: any) => void} done
 */
export function obeyButtons(element, done) {
  element.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button[data-action]") : null;
    if (button instanceof HTMLButtonElement) act(button, done);
  });
}

/**
 * @param {HTMLButtonElement} button
 * @param {(trial: any) => void} done
 */
async function act(button, done) {
  const row = /** @type {HTMLTableRowElement} */ (button.closest("tr"));
  const number = row.querySelector('[data-cell="number"]')?.textContent;
  const stop = button.dataset.action === "cancel";
  const sure = await confirmed(stop
    ? { title: `Stop trial ${number}?`, text: "The trial ends now. Metrics that it has not reported yet are lost.", action: "Stop trial" }
    : { title: `Run trial ${number} again?`, text: "A new trial with the same parameters, and the same changes to the code if there are any, is queued. It counts towards the trial limit.", action: "Run again", loses: false });
  if (!sure) return;
  button.disabled = true;
  try {
    const trial = await rest("POST", `trials/${row.dataset.id}/actions/${button.dataset.action}/`);
    done(trial);
    showError(null);
  } catch (error) {
    showError(error, button);
  } finally {
    button.disabled = false;
  }
}
