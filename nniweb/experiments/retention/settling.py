"""Adds up the trials of an experiment that have ended for good (``SettledTrials``), some at a time, in short
transactions. Whatever moment it is interrupted at, the next call goes on from there.

A trial is settled when nothing of it changes any more that is added up: it has ended, nothing can come from its
keepers, and where outcomes are constrained it was compared with the constraints. Where one changes nevertheless,
because somebody fetched a journal weeks later, its revision says so, and all are added up anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F, Max, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest

from nniweb.experiments.models import Attempt, Experiment, SettledTrials, Trial
from nniweb.experiments.models.trial import RESULTS
from nniweb.experiments.results.best_so_far import improvements
from nniweb.experiments.retention.removal import Pace
from nniweb.experiments.sql.seconds_between import SecondsBetween
from trainingservice.trial_job_status import ENDS

#: Trials that are read for one transaction.
AT_ONCE = 500
#: Trials that may be left out in between, such as frozen ones; beyond that the others wait.
MOST_OPEN = 100
#: Of results that improve more often the improvements are not kept.
MOST_IMPROVEMENTS = 2000
_ENDS = frozenset(end.value for end in ENDS)
_COLUMNS = ("pk", "sequence_id", "status", "final_number", "feasible", "revision", "ended_at", "taught")
#: The first six of these columns, and whether it is settled.
_Found = tuple[int, int, str, "float | None", "bool | None", int, bool]


def settle(experiment: Experiment, before: datetime, pace: Pace, is_over: Callable[[], bool]) -> bool:
    """Add what has settled. ``before``: keepers whose attempts ended before that say nothing more. False where
    ``is_over`` came first and there may be more.
    """
    # before the trials are read: what changes meanwhile has a later one
    revision = Experiment.objects.values_list("revision", flat=True).get(pk=experiment.pk)
    row = SettledTrials.objects.filter(experiment=experiment).first() or _nothing(experiment)
    if _has_changed(row):
        row = _nothing(experiment, row.pk)
    row.revision = max(row.revision, revision)
    trials = Trial.objects.filter(experiment=experiment)
    if row.open_trials:
        found = _read(trials.filter(pk__in=row.open_trials), experiment, before)
        _take(row, experiment, [each for each in found if each[-1]])
        row.open_trials = [each[0] for each in found if not each[-1]]
        _keep(row, pace)
    in_order = trials.order_by("sequence_id")
    while some := _read(in_order.filter(sequence_id__gte=row.until)[:AT_ONCE], experiment, before):
        if is_over():
            return False
        settled = _up_to_the_last_settled(row, some)
        if not settled:
            break
        _take(row, experiment, settled)
        _keep(row, pace)
    return True


def _nothing(experiment: Experiment, pk: int | None = None) -> SettledTrials:
    has_best = not experiment.has_several_objectives and not experiment.has_replicates
    return SettledTrials(pk=pk, experiment=experiment, improvements=[] if has_best else None)


def _has_changed(row: SettledTrials) -> bool:
    """Whether a trial that is added up has changed since, or one has come before them."""
    trials = Trial.objects.filter(experiment=row.experiment_id, sequence_id__lt=row.until)
    return trials.filter(revision__gt=row.revision).exclude(pk__in=row.open_trials).exists() or \
        trials.count() != sum(row.counts.values()) + len(row.open_trials)


def _read(trials: QuerySet[Trial], experiment: Experiment, before: datetime) -> list[_Found]:
    """These trials, each with whether it is settled. Two questions: PostgreSQL would look through the attempts of all
    experiments for one that has both in it.
    """
    found = list(trials.values_list(*_COLUMNS))
    may_send = set(Attempt.objects.filter(
        ~Q(stage=Attempt.Stage.ENDED) | Q(end_received_at__gt=before), trial__in=[pk for pk, *_ in found]
    ).values_list("trial", flat=True))
    return [(pk, number, status, final, feasible, revision, status in _ENDS and pk not in may_send
             and ended_at is not None and ended_at <= before and (taught or not experiment.outcome_constraints))
            for pk, number, status, final, feasible, revision, ended_at, taught in found]


def _up_to_the_last_settled(row: SettledTrials, some: Sequence[_Found]) -> list[_Found]:
    """Those that are settled; ``row`` notes the others in between. What is behind the last one is left for later."""
    waiting: list[int] = []
    settled: list[_Found] = []
    for each in some:
        if each[-1]:
            row.open_trials += waiting
            waiting = []
            settled.append(each)
            row.until = each[1] + 1
        elif len(row.open_trials) + len(waiting) >= MOST_OPEN:
            break
        else:
            waiting.append(each[0])
    return settled


def _take(row: SettledTrials, experiment: Experiment, settled: Sequence[_Found]) -> None:
    # reports of metrics alone have revisions that the experiment's row does not say
    row.revision = max([row.revision, *(each[5] for each in settled)])
    row.counts = dict(Counter(row.counts) + Counter(status for _, _, status, *_ in settled))
    if row.improvements is not None:
        results = [(number, final) for _, number, status, final, feasible, *_ in settled
                   if status in RESULTS and final is not None and feasible is not False]
        points = sorted([*((number, value) for number, value in row.improvements), *results])
        better = improvements(points, greater_is_better=experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE)
        row.improvements = better if len(better) <= MOST_IMPROVEMENTS else None
    ran = _running_time([pk for pk, *_ in settled])
    row.seconds += ran["seconds"] or 0.0
    row.first_began = min((at for at in (row.first_began, ran["first"]) if at is not None), default=None)
    row.last_ended = max((at for at in (row.last_ended, ran["last"]) if at is not None), default=None)


def _running_time(trials: Sequence[int]) -> dict[str, Any]:
    """Of the attempts of these trials, all of which have ended."""
    # of an attempt that does not say when it ended, the server knows when it heard of it
    end = Coalesce("ended_at", "end_received_at", "started_at")
    return Attempt.objects.filter(trial__in=trials, started_at__isnull=False).aggregate(
        seconds=Sum(Greatest(SecondsBetween(F("started_at"), end), Value(0.0))), first=Min("started_at"),
        last=Max(end))


def _keep(row: SettledTrials, pace: Pace) -> None:
    with pace.measured():
        row.save()
