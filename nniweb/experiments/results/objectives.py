"""What trials achieved in each objective, and which of them are on the Pareto front.

The front is kept as a mark on the trials: each end is compared with the marked ones alone, once, by the worker.
"""

from collections.abc import Iterable, Mapping, Sequence

from nniweb.experiments.models import Experiment, MetricNumber, Trial
from nniweb.experiments.models.trial import RESULTS
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.tuning.tuner_base.pareto_front import ParetoFront, losses_of
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

#: By primary key of a trial, a value for each objective; None where the trial gave none.
Values = dict[int, list[float | None]]


def names_of_objectives(experiment: Experiment) -> list[str]:
    """The metrics of the objectives, the main one first."""
    return [str(one["metric"]) for one in experiment.objectives] or [main_metric(())]


def values_of(experiment: Experiment, trials: Iterable[Trial]) -> Values:
    """What these trials (``final_number`` loaded) have as their final results. One query where there are several."""
    found: Values = {trial.pk: [trial.final_number] for trial in trials}
    further = names_of_objectives(experiment)[1:]
    if further:
        numbers = {(trial, name): final for trial, name, final in MetricNumber.objects.filter(
            trial__in=list(found), metric__name__in=further).values_list("trial", "metric__name", "final")}
        for pk, values in found.items():
            values += [numbers.get((pk, name)) for name in further]
    return found


def take_into_front(experiment: Experiment, trials: Sequence[Trial], values: Mapping[int, Sequence[float | None]],
                    revision: int) -> None:
    """Compare trials that have just ended with the front, and mark them and those that leave it. One that is not
    feasible (``note_feasibility``) is never on it.

    Inside a transaction that holds the experiment's row.
    """
    modes = [str(one["optimize_mode"]) for one in experiment.objectives]
    ended = {trial.pk: whole for trial in trials
             if trial.status in RESULTS and trial.final_number is not None and trial.feasible is not False
             and (whole := _whole(values[trial.pk])) is not None}
    if len(modes) < 2 or not ended:
        return
    before = list(Trial.objects.filter(experiment=experiment, on_front=True).only("pk", "final_number"))
    front: ParetoFront[int] = ParetoFront()
    known = {pk: whole for pk, found in values_of(experiment, before).items() if (whole := _whole(found)) is not None}
    for pk, whole in {**known, **ended}.items():
        front.add(pk, losses_of(whole, modes))
    for pks, is_on in (([pk for pk in ended if pk in front and pk not in known], True),
                       ([trial.pk for trial in before if trial.pk not in front], False)):
        if pks:
            Trial.objects.filter(pk__in=pks).update(on_front=is_on, revision=revision)


def _whole(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def say_what_is_missing(experiment: Experiment, trials: Sequence[Trial], values: Mapping[int, Sequence[float | None]],
                        revision: int) -> None:
    """Have each trial that succeeded without a number for every objective say so."""
    if not experiment.objectives:
        return
    names = names_of_objectives(experiment)
    for trial in trials:
        missing = [name for name, value in zip(names, values[trial.pk], strict=True) if value is None]
        if not missing or trial.status != TrialJobStatus.SUCCEEDED:
            continue
        why = Reason("objectives_missing", objectives=list(names), missing=missing,
                     reported=trial.final_value is not None, before=trial.message)
        trial.message = str(why)
        Trial.objects.filter(pk=trial.pk).update(message=trial.message, reason=why.code, reason_arguments=why.arguments,
                                                 revision=revision)
