/** Check boxes with which an experiment runs on several clusters: they write the list `clusters` of the text. */

import { keyOf } from "../ui/settings_tree.js";
import { change, onValues } from "./config_fields.js";

const chosen = /** @type {HTMLSelectElement} */ (document.getElementById("cluster"));
const place = document.getElementById("several-clusters");

/** The entries of the text, in their order. @type {import("../ui/settings_tree.js").Group[]} */
let entries = [];

/** @param {any} entry @returns {unknown} */
const nameOf = (entry) => entry?.[keyOf(Object(entry), "name")];

/** @returns {HTMLInputElement[]} */
const boxes = () => [...(place?.querySelectorAll("input") ?? [])];

export function startSeveralClusters() {
  for (const box of boxes()) box.addEventListener("change", write);
  onValues((values) => {
    const found = values?.clusters;
    entries = Array.isArray(found) ? found.filter((one) => typeof nameOf(one) === "string") : [];
    const names = entries.length > 0 ? entries.map(nameOf) : [chosen.value];
    for (const box of boxes()) box.checked = names.includes(box.value);
  });
}

/** Entries that are there keep their limits; the first stays the home. */
function write() {
  const names = boxes().filter((box) => box.checked).map((box) => box.value);
  const kept = entries.filter((one) => names.includes(String(nameOf(one))));
  const first = kept.length === 0 && names.includes(chosen.value) ? [{ name: chosen.value }] : [];
  const known = [...kept, ...first];
  const list = [...known, ...names.filter((name) => !known.some((one) => nameOf(one) === name)).map((name) => ({ name }))];
  if (list.length > 1) {
    chosen.value = "";
    change({ clusters: list, cluster: null, trainingService: null, trialOptions: null });
  } else {
    change({ clusters: null, cluster: list[0]?.name ?? null });
  }
}
