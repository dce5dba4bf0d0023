/**
 * The form of a platform beside the text. It changes the trainingService section of the text; the text stays the only
 * truth.
 */

import { SettingsForm } from "../ui/settings_form.js";
import { change, onValues } from "./config_fields.js";

const select = /** @type {HTMLSelectElement} */ (document.getElementById("f-platform"));
const place = /** @type {HTMLElement} */ (document.getElementById("platform-fields"));
/** @type {Record<string, import("../ui/settings_tree.js").Field[]>} */
const fields = JSON.parse(document.getElementById("platform-forms")?.textContent ?? "{}");
let shown = "";

export function startPlatformFields() {
  const form = new SettingsForm(place, {
    prefix: "f-platform", folds: false, onChange: () => change(() => ({ trainingService: form.value, cluster: null })),
  });
  select.addEventListener("change", () => {
    if (!select.value) {
      change({ trainingService: null });
      return;
    }
    change(() => ({ trainingService: { platform: select.value }, cluster: null }));
  });
  onValues((values) => {
    select.disabled = values === null;
    if (!values) return;
    const section = values.trainingService !== null && typeof values.trainingService === "object" ? values.trainingService : {};
    const written = String(section.platform ?? "").toLowerCase();
    select.value = [...select.options].find((option) => option.value === written)?.value ?? "";
    if (select.value !== shown) {
      shown = select.value;
      form.setFields(fields[shown] ?? []);
    }
    if (shown) form.set(section);
    else place.replaceChildren();
  });
}
