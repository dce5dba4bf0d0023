"""Whether Medianstop's ``start_step`` suits the curves seen so far."""

from __future__ import annotations

from dataclasses import dataclass

from nniweb.experiments.charts.intermediate_series import Series, whole_curves
from nniweb.experiments.checkpoints.joined_attempts import IS_RESUMED
from nniweb.experiments.models import Experiment, Trial
from nniweb.tuning.assessors.start_step import judge_start_step
from nniweb.tuning.class_args import MedianstopArgs
from trainingservice.trial_job_status import TrialJobStatus

#: Fewer curves say nothing.
FEWEST_CURVES = 10
#: The newest so many are looked at, and so many values of them at most: what is asked takes as long in any experiment.
MOST_CURVES = 100
MOST_VALUES = 10_000


@dataclass(frozen=True)
class StartStepAdvice:
    """``set_to`` None: auto. ``lost`` of the ``best`` of ``curves`` trials would have been stopped with it; with
    ``suggested`` none.
    """

    set_to: int | None
    suggested: int
    lost: int
    best: int
    curves: int


def start_step_advice(experiment: Experiment) -> StartStepAdvice | None:
    """What another ``start_step`` would do; None where the experiment has no Medianstop, too few of its trials have
    succeeded, or the one that is set is as good. Two queries.
    """
    assessor = experiment.assessor or {}
    if assessor.get("name") != "Medianstop":
        return None
    args = MedianstopArgs.model_validate(assessor.get("class_args") or {})
    trials = Trial.objects.filter(experiment=experiment, status=TrialJobStatus.SUCCEEDED.value,
                                  final_number__isnull=False, intermediate_count__gt=0)
    newest = list(trials.annotate(is_resumed=IS_RESUMED).order_by("-sequence_id")[:MOST_CURVES])
    longest = max((trial.intermediate_count for trial in newest), default=1)
    seen = [one for one in whole_curves(newest[:MOST_VALUES // longest]) if one.steps[:1] == [0]]
    if len(seen) < FEWEST_CURVES:
        return None
    judged = judge_start_step([_without_gaps(one) for one in seen], [float(one.final or 0) for one in seen],
                              experiment.optimize_mode, args.start_step)
    is_as_good = judged.lost == 0 if args.start_step is None else judged.suggested == args.start_step
    return None if is_as_good else StartStepAdvice(args.start_step, judged.suggested, judged.lost, judged.best,
                                                   len(seen))


def _without_gaps(series: Series) -> list[float]:
    """What an assessor judges: results that come after a gap wait for it to be filled."""
    return [value for place, (step, value) in enumerate(zip(series.steps, series.values, strict=True)) if place == step]
