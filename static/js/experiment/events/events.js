/** The tab of events. Those of the experiment are taken anew by the head; here those of its trials. */

import { refreshParts } from "../../ui/refreshed_parts.js";
import { page, startHead } from "../head.js";

/** Shortest pause between two looks, in milliseconds. */
const LOOK_PAUSE = 1_500;

/** @type {ReturnType<typeof setTimeout> | undefined} */
let looking;
let looked = 0;

function changed() {
  if (!page.with_trials) return;
  looking ??= setTimeout(() => {
    looking = undefined;
    looked = performance.now();
    refreshParts(["events"]).catch(() => {}); // the light says that there is no connection
  }, Math.max(0, looked + LOOK_PAUSE - performance.now()));
}

startHead({ heard: (trials) => trials.length && changed(), missed: async () => changed() });
