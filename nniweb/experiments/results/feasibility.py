"""Constraints on outcomes: what a result is, which constraints it breaks, and which results lead."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.models.trial import RESULTS, counts_for_best
from nniweb.experiments.results.metric_number import numbers_in
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.tuning.constraints.constraint import Judgement, judge_all
from trainingservice.reasons import Reason

#: By primary key of a trial: what each constraint says of its result.
Judgements = dict[int, list[Judgement]]


def metrics_in(text: str, main: str) -> dict[str, float]:
    """All finite numbers of a reported result, by name; a plain number is the main metric's."""
    number, named = numbers_in(text)
    if named is not None:
        return named
    return {} if number is None else {main: number}


def judged(experiment: Experiment, texts: Mapping[int, str | None]) -> Judgements:
    """What the constraints say of these results (by trial), each as it was reported; of none at all, too."""
    if not experiment.outcome_constraints:
        return {}
    main = main_metric(experiment.objectives)
    return {pk: judge_all(experiment.outcome_constraints, {} if text is None else metrics_in(text, main))
            for pk, text in texts.items()}


def violation_of(judgements: Iterable[Judgement]) -> float:
    """0 where the result satisfies all of them, else more."""
    return sum(judgement.violation for judgement in judgements)


def note_feasibility(trials: Sequence[Trial], judgements: Judgements, revision: int) -> list[Trial]:
    """Mark the trials with a result as feasible or not, and have those that are not say which constraint they break.

    Returns the feasible ones. Inside a transaction that holds the experiment's row; the trials have ``status``,
    ``message`` and ``final_value``.
    """
    feasible = []
    for trial in trials:
        if trial.pk not in judgements or trial.status not in RESULTS or trial.final_value is None:
            continue
        broken = [judgement for judgement in judgements[trial.pk] if judgement.violation > 0]
        trial.feasible = not broken
        fields: dict[str, Any] = {"feasible": trial.feasible, "revision": revision}
        if broken:
            why = Reason("outcome_broken", constraints=[
                {"constraint": one.constraint, "values": dict(one.values), "missing": list(one.missing)}
                for one in broken], before=trial.message)
            trial.message = str(why)
            fields |= {"message": trial.message, "reason": why.code, "reason_arguments": why.arguments}
        else:
            feasible.append(trial)
        Trial.objects.filter(pk=trial.pk).update(**fields)
    return feasible


def feasible_first(experiment: Experiment, value: float) -> float:
    """What stands for this value, of a result that breaks a constraint, where constraints are not known: the worst
    feasible result so far, unless the value is worse itself.
    """
    falls = experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE
    worst = Trial.objects.filter(counts_for_best(), experiment=experiment, feasible=True).order_by(
        "final_number" if falls else "-final_number").values_list("final_number", flat=True).first()
    if worst is None:
        return value
    return min(value, worst) if falls else max(value, worst)


def with_main_number(text: str | None, main: str, number: float) -> str:
    """The reported result with another number for the main metric."""
    found = json.loads(text) if text is not None else None
    return json.dumps({**found, main: number} if isinstance(found, dict) else number)
