/** The tab of all trials. */

import { page, startHead } from "./head.js";
import { TrialsTable } from "./trials_table.js";

const table = new TrialsTable(page);
startHead({ heard: (trials) => table.heard(trials), missed: () => table.refresh() });
