/** A tab that shows what does not change: only its head lives. */

import { startHead } from "./head.js";

startHead();
