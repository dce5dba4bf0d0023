/** What is said of a trial's machine where no reading came from it. */

import { duration } from "../lib/formats.js";

/** A keeper reads each so many seconds, the first time so long after the start. */
const EACH = 10;

/** @typedef {{machine: string, gpu_indices: number[] | null, started_at: string | null, duration: number | null, ended: boolean}} Run */

/** @param {Run} run */
export function noReadings(run) {
  const gpus = run.gpu_indices?.length ? ` with GPU ${run.gpu_indices.join(", ")}` : "";
  const where = run.machine ? ` on ${run.machine}${gpus}` : gpus;
  if (!run.started_at) return run.ended ? "It never ran on a machine." : "It does not run on a machine yet.";
  if (!run.ended) return `It runs${where}. The first reading comes about ${EACH} s after the start.`;
  const long = run.duration === null ? "" : ` for ${duration(run.duration)}`;
  return run.duration !== null && run.duration < 2 * EACH
    ? `It ran${where}${long}: too short for a reading, which is made each ${EACH} s.`
    : `It ran${where}${long}, and no reading of it has come.`;
}
