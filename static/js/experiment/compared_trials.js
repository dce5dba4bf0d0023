/** So many trials can be compared at once: the same as in nniweb/dashboard/experiment_tabs/carried_selection.py. */
export const MOST_COMPARED = 20;
