/** The parameter sets of a trial that has several, as templates/dashboard/parameter_sets.html writes them. */

import { digits, parameter } from "../lib/formats.js";

/**
 * @param {Element | null} place
 * @param {any} trial
 */
export function showParameterSets(place, trial) {
  if (!(place instanceof HTMLElement)) return;
  const written = JSON.stringify([trial.parameter_set_count, trial.result_index, trial.parameter_sets]);
  if (place.dataset.written === written) return; // so that what is read out or selected stays
  place.dataset.written = written;
  place.hidden = trial.parameter_set_count < 2;
  const summary = place.querySelector("summary");
  if (summary) summary.textContent = `${trial.parameter_set_count} sets`;
  place.querySelector("ol")?.replaceChildren(...trial.parameter_sets.map((/** @type {any} */ one) => {
    const item = document.createElement("li");
    item.className = one.index === trial.result_index ? "small best" : "small";
    item.value = one.index;
    const given = document.createElement("span");
    given.className = "quiet";
    given.textContent = Object.entries(one.parameters ?? {}).map(([name, value]) => `${name} ${parameter(value)}`).join(", ");
    item.append(digits(one.final_number), " ", given);
    return item;
  }));
}
