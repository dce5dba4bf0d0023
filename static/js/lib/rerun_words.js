/** What the dialogs of a rerun say about the code that the new trial runs. */

/**
 * A sentence with a space before it; "" where the trial runs the experiment's code as it is.
 * @param {{variant?: unknown}} trial
 */
export function keptCode(trial) {
  return trial.variant ? " The new trial keeps the changes to the code of this one." : "";
}
