"""Final results of trials that may ask for further parameter sets: each set has its own, the trial that of the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nniweb.experiments.models import Experiment, Trial, TrialParameters
from nniweb.experiments.results.other_metrics import Numbers
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.selected_rows import select


class SetResult(NamedTuple):
    """A final result as it was reported. ``number``: the finite one in it, None where there is none; ``others``: the
    further metrics in it.
    """

    parameter_id: Any
    value: str
    number: float | None
    others: Numbers


def keep_results_of_sets(trial_pk: int, results: Sequence[SetResult]) -> Numbers:
    """Store these results, in the order in which they came, inside the caller's transaction. The further metrics of the
    one that is the trial's result now; none where that is as before.

    The first result of a set stays. One with a parameter id that the trial was not given is of no set; it is kept among
    the metrics alone.
    """
    without = select(TrialParameters, ("id", "index", "parameter_id"),
                     "WHERE trial_id = %s AND final_value IS NULL AND value IS NOT NULL ORDER BY \"index\"", [trial_pk])
    [trial] = select(Trial, ("id", "experiment", "final_number", "final_value"), "WHERE id = %s", [trial_pk])
    [experiment] = select(Experiment, ("id", "optimize_mode"), "WHERE id = %s", [trial.experiment_id])
    falls = experiment.optimize_mode == Experiment.OptimizeMode.MINIMIZE
    best = None if trial.final_value is None else trial.final_number
    has_result = trial.final_value is not None
    others: Numbers = {}
    for result in results:
        found = next((one for one in without if _is_same(one.parameter_id, result.parameter_id)), None)
        if found is None:
            continue
        without.remove(found)
        update(TrialParameters, "id = %s", [found.pk], final_value=result.value, final_number=result.number)
        is_better = result.number is not None and (
            best is None or (result.number < best if falls else result.number > best))
        if is_better or not has_result:
            update(Trial, "id = %s", [trial_pk], final_value=result.value, final_number=result.number,
                   result_index=found.index)
            best, has_result, others = result.number, True, result.others
    return others


def _is_same(given: Any, reported: Any) -> bool:
    """Whether two parameter ids are the same: 1 and True are not."""
    return type(given) is type(reported) and given == reported
