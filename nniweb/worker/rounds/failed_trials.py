"""What trials without a final result mean for their experiment: for its tuner, and for its going on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nniweb.experiments.config.document import EQUAL_FAILURES
from nniweb.experiments.lifecycle.reason_columns import reason_of
from nniweb.experiments.lifecycle.retries import ON_FAILURE, REFUSED, kind_of_failure
from nniweb.experiments.models import Attempt, Experiment, Metric, MetricNumber, Trial
from nniweb.experiments.models.trial import CONSTRAINT_BROKEN, RESULTS
from nniweb.experiments.results.objectives import values_of
from nniweb.experiments.results.other_metrics import numbers_of_metric
from trainingservice.reasons import Reason, because_of
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Keys of ``Experiment.failed_trials``.
TELL_TUNER, GIVE_UP_AFTER, GIVE_UP_AFTER_EQUAL = "tellTuner", "giveUpAfter", "giveUpAfterEqual"
#: Key of ``Experiment.tuner``.
INCLUDES_INTERMEDIATES = "include_intermediate_results"
#: Proposals in a row that break a constraint before the experiment is given up: its tuner does not learn from it.
MOST_REFUSED = 100
#: Different reasons that the message of an experiment that was given up names.
_REASONS = 3


def results_of(experiment: Experiment, trials: Sequence[Trial]) -> dict[int, list[float | None]]:
    """What the tuner is told as the result of each of these ended trials, by primary key: a value for each objective
    (one, where the experiment names none), None where it has none.

    Written into the tuner's history, so that a replay tells the same whatever has ended since.
    """
    results: dict[int, list[float | None]] = {
        pk: values if status in RESULTS else [None] * len(values)
        for pk, values, status in _reported(experiment, trials)}
    if experiment.tuner.get(INCLUDES_INTERMEDIATES):
        results |= {pk: values for pk, (values, _) in last_intermediates(experiment, trials).items()}
    wanted = experiment.failed_trials.get(TELL_TUNER)
    failed = _failed_by_their_command(trials) if wanted is not None else []
    if failed:
        told: list[float | None] = [_worst(experiment) if wanted == "worst" else float(wanted)]
        told += [_worst_of(experiment, objective) for objective in experiment.objectives[1:]]
        results |= {pk: list(told) for pk in failed}
    return results


def last_intermediates(experiment: Experiment, trials: Sequence[Trial]) -> dict[int, tuple[list[float | None], str]]:
    """Of those that were stopped early without a final result, what they reported last: a value for each objective, and
    the text. Trials that reported nothing are left out.
    """
    pks = [trial.pk for trial in trials
           if trial.status == TrialJobStatus.EARLY_STOPPED and trial.final_value is None]
    found: dict[int, tuple[list[float | None], str]] = {}
    last: dict[int, tuple[float | None, str]] = {}
    for pk in pks:  # one by one: a trial may have many
        row = Metric.objects.filter(attempt__trial=pk, kind=contract.PERIODICAL).order_by(
            "-attempt__number", "-n").values_list("number", "value").first()
        if row is not None:
            last[pk] = row[0], str(row[1])
    further = [str(one["metric"]) for one in experiment.objectives[1:]]
    numbers = {(pk, name): latest for pk, name, latest in MetricNumber.objects.filter(
        trial__in=last, metric__name__in=further).values_list("trial", "metric__name", "latest")} if further else {}
    for pk, (number, text) in last.items():
        found[pk] = [number, *(numbers.get((pk, name)) for name in further)], text
    return found


def _reported(experiment: Experiment, trials: Sequence[Trial]) -> Iterator[tuple[int, list[float | None], str]]:
    values = values_of(experiment, trials)
    for trial in trials:
        yield trial.pk, values[trial.pk], trial.status


def _failed_by_their_command(trials: Sequence[Trial]) -> list[int]:
    """Those whose parameters may be to blame, or are, as they break a constraint: not those that their platform lost or
    never took.
    """
    failed = [trial.pk for trial in trials if trial.status == TrialJobStatus.FAILED]
    refused = [trial.pk for trial in trials if trial.reason == CONSTRAINT_BROKEN]
    ends: dict[int, str] = {}
    short_of_memory: set[int] = set()
    for pk, reason, memory in Attempt.objects.filter(trial__in=failed).order_by("number").values_list(
            "trial", "end_reason", "out_of_memory"):
        ends[pk] = reason
        # where no GPU is large enough the next attempt is refused
        if memory or reason != REFUSED:
            (short_of_memory.add if memory else short_of_memory.discard)(pk)
    return refused + [pk for pk, reason in ends.items()
                      if pk in short_of_memory or kind_of_failure(TrialJobStatus.FAILED, reason) == ON_FAILURE]


def _worst(experiment: Experiment) -> float | None:
    """The worst result so far; None before the first."""
    falling = experiment.optimize_mode == Experiment.OptimizeMode.MINIMIZE
    return Trial.objects.filter(experiment=experiment, status__in=RESULTS, final_number__isnull=False).order_by(
        "-final_number" if falling else "final_number").values_list("final_number", flat=True).first()


def _worst_of(experiment: Experiment, objective: Mapping[str, str]) -> float | None:
    """As ``_worst``, of a further objective."""
    falling = objective["optimize_mode"] == Experiment.OptimizeMode.MINIMIZE
    return numbers_of_metric(experiment, objective["metric"]).filter(
        trial__status__in=RESULTS, final__isnull=False).order_by("-final" if falling else "final").values_list(
        "final", flat=True).first()


def failures_in_row(before: int, trials: Iterable[Trial]) -> int:
    """How many trials in a row have failed after these ends, in their order, of which ``before`` had before them.

    One that succeeded or was stopped early has shown that trials can work; one that was canceled shows nothing.
    """
    count = before
    for trial in trials:
        if trial.status == TrialJobStatus.FAILED:
            count += 1
        elif trial.status in RESULTS:
            count = 0
    return count


def why_given_up(experiment: Experiment) -> str:
    """The reason for which the experiment ends, "" while it goes on."""
    if experiment.failures_in_row >= MOST_REFUSED and (refused := _only_refused(experiment)):
        return refused
    if equal := _only_equal(experiment):
        return equal
    most = experiment.failed_trials.get(GIVE_UP_AFTER)
    if most is None or experiment.failures_in_row < most:
        return ""
    last = Trial.objects.filter(experiment=experiment, status=TrialJobStatus.FAILED.value).order_by("-ended_at", "-pk")
    count = experiment.failures_in_row
    reasons = list(dict.fromkeys(last.values_list("message", "reason")[:count]))[:_REASONS]
    return Reason("given_up", count=count, most=most, said=[message for message, _ in reasons if message],
                  codes=list(dict.fromkeys(code for _, code in reasons if code)))


def _only_equal(experiment: Experiment) -> str:
    """The reason where no trial has succeeded and the last ones failed alike, else ""."""
    default = 0 if GIVE_UP_AFTER in experiment.failed_trials else EQUAL_FAILURES
    most = experiment.failed_trials.get(GIVE_UP_AFTER_EQUAL, default)
    if not most or experiment.failures_in_row < most:
        return ""
    trials = Trial.objects.filter(experiment=experiment)
    # by number, which has an index: of those that ended late nothing else is known than of their neighbours
    last = list(trials.filter(status=TrialJobStatus.FAILED.value).order_by("-sequence_id")[:most])
    if last[0].reason == CONSTRAINT_BROKEN or len({trial.failure for trial in last}) > 1 \
            or trials.filter(status__in=RESULTS).exists():
        return ""
    why = reason_of(last[0])
    return Reason("equal_failures", count=most, said=str(why), **because_of(why))


def _only_refused(experiment: Experiment) -> str:
    """The reason where nothing but proposals that break a constraint came of late, else ""."""
    last = list(Trial.objects.filter(experiment=experiment).exclude(ended_at=None).order_by("-ended_at", "-pk")
                .values_list("reason", "reason_arguments")[:MOST_REFUSED])
    if len(last) < MOST_REFUSED or any(reason != CONSTRAINT_BROKEN for reason, _ in last):
        return ""
    return Reason("proposals_refused", count=MOST_REFUSED, constraint=last[0][1]["constraint"])
