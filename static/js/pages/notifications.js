/** The pages about who is told of what: set up, test, switch off, change, remove, send again. */

import { showError } from "../ui/action_error.js";
import { confirmed } from "../ui/confirm.js";
import { rest } from "../lib/rest.js";
import { keepWhileSame, refreshParts } from "../ui/refreshed_parts.js";

/** Pause between two readings while a message waits, in milliseconds. */
const PAUSE = 1500;
/** What changes by itself, or by what is done here. */
const PARTS = ["messages", "facts", "acts"];

/**
 * Do it; what goes wrong is said beside the title.
 * @param {() => Promise<void>} what
 * @param {HTMLButtonElement | null} [button]  not to be pressed meanwhile
 */
async function attempt(what, button) {
  if (button) button.disabled = true;
  try {
    await what();
    showError(null);
  } catch (error) {
    showError(error);
  } finally {
    if (button) button.disabled = false;
  }
}

/**
 * The fields of a form, as REST takes them; what is empty is left out but the name.
 * @param {HTMLFormElement} form
 * @returns {Record<string, string | boolean>}
 */
function valuesOf(form) {
  /** @type {Record<string, string | boolean>} */
  const values = {};
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement)) continue;
    if (field.type === "checkbox") values[field.name] = field.checked;
    else if (field.value || field.name === "name") values[field.name] = field.value;
  }
  return values;
}

// --- the list: a new one ---------------------------------------------------------------------

const newRule = /** @type {HTMLFormElement | null} */ (document.getElementById("new-rule"));
const channel = /** @type {HTMLSelectElement | null} */ (newRule?.elements.namedItem("channel") ?? null);

function showFields() {
  const fields = document.getElementById("webhook-fields");
  if (fields && channel) fields.hidden = channel.value !== "webhook";
}

channel?.addEventListener("change", showFields);
showFields();
newRule?.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    const scope = /** @type {HTMLSelectElement} */ (newRule.elements.namedItem("scope"));
    const wish = valuesOf(newRule);
    if (channel?.value !== "webhook") {
      delete wish.url;
      delete wish.secret;
    }
    if (scope.value) wish[scope.value] = scope.selectedOptions[0].dataset.id ?? "";
    const made = await rest("POST", "notifications/", { ...wish, channel: channel?.value });
    const notice = document.getElementById("made");
    if (!made.secret || wish.secret || !notice) {
      location.assign(`/notifications/${made.id}/`);
      return;
    }
    // it can be read now and never again, so the page stays
    /** @type {HTMLElement} */ (document.getElementById("secret")).textContent = made.secret;
    /** @type {HTMLAnchorElement} */ (document.getElementById("made-link")).href = `/notifications/${made.id}/`;
    notice.hidden = false;
    notice.scrollIntoView({ block: "nearest" });
    newRule.reset();
    showFields();
    await refreshParts(["rules"]);
  }, newRule.querySelector("button"));
});

// --- one of them -----------------------------------------------------------------------------

const rule = document.getElementById("rule");
const path = `notifications/${rule?.dataset.id}/`;

/** Take the messages anew; those that were opened stay open. */
async function refresh() {
  const open = [...document.querySelectorAll("details[open]")].map((each) => /** @type {HTMLElement} */ (each).dataset.delivery);
  await refreshParts(PARTS);
  for (const each of document.querySelectorAll("details")) each.open ||= open.includes(each.dataset.delivery);
}

/** Read again and again while something waits to be sent and somebody looks. */
async function follow() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (document.getElementById("messages")?.dataset.waits !== "true" || document.visibilityState !== "visible") continue;
    try {
      await refresh();
    } catch {
      // the server is away; it is asked again
    }
  }
}

if (rule) {
  keepWhileSame(PARTS);
  follow();
}

document.getElementById("main")?.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-do]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  attempt(async () => {
    switch (button.dataset.do) {
      case "test":
        await rest("POST", `${path}actions/test/`);
        break;
      case "again":
        await rest("POST", `${path}deliveries/${button.dataset.delivery}/actions/send-again/`);
        break;
      case "on":
      case "off":
        await rest("PATCH", path, { enabled: button.dataset.do === "on" });
        break;
      case "remove": {
        const text = "Waiting messages are not sent, and the record of its messages is deleted.";
        if (!await confirmed({ title: `Remove ${rule?.dataset.name}?`, text, action: "Remove" })) return;
        await rest("DELETE", path);
        location.assign("/notifications/");
        return;
      }
    }
    await refresh();
  }, button);
});

const change = /** @type {HTMLFormElement | null} */ (document.getElementById("change-rule"));
change?.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    await rest("PATCH", path, valuesOf(change));
    location.reload();
  }, change.querySelector("button"));
});
