/** The tab of events. Those of the experiment are taken anew by the head; here those of its trials. */

import { ThrottledReload } from "../../lib/throttled_reload.js";
import { refreshParts } from "../../ui/refreshed_parts.js";
import { page, startHead } from "../head.js";

/** Shortest pause between two looks, in milliseconds. */
const LOOK_PAUSE = 1_500;

const events = new ThrottledReload(() => refreshParts(["events"]), LOOK_PAUSE);

function changed() {
  if (page.with_trials) events.ask();
}

startHead({ heard: (trials) => trials.length && changed(), missed: async () => changed() });
