"""Intermediate results of several trials as curves, thinned: for charts that lay them over each other."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import groupby

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery

from nniweb.experiments.checkpoints.joined_attempts import IS_RESUMED, chains_of
from nniweb.experiments.models import Attempt, Experiment, Metric, MetricNumber, Trial
from nniweb.experiments.models.trial import counts_for_best
from nniweb.experiments.results.metric_number import numbers_in
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract
from trialkeeper.whole_number import whole_number

#: Attempt, trial, sequence, number, when reported, when its attempt began.
_Report = tuple[int, int, int, float | None, datetime, datetime | None]


class Which(StrEnum):
    """Trials that are chosen by what they are."""

    #: With the best final results, the best first.
    TOP = "top"
    #: Running now, the newest first.
    RUNNING = "running"
    #: The newest of those that reported something.
    LATEST = "latest"
    #: Those that the assessor stopped, the newest first.
    STOPPED = "stopped"


@dataclass
class Series:
    """One trial's curve: the last value reported for each step, of its last attempt and of those that it continues."""

    trial: Trial
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    #: When each was reported, in seconds since the attempt began (where that is not known: since the first report); of
    #: one that went on from a checkpoint from the time of the last result before that.
    seconds: list[float] = field(default_factory=list)
    #: Points that were left out.
    left_out: int = 0
    final: float | None = None


@dataclass(frozen=True)
class SeriesOfTrials:
    series: list[Series]
    #: How many trials there are of this kind, with those that are not here.
    total: int


def series_of_these(experiment: Experiment, trial_ids: Sequence[str], points: int, metric: str | None = None
                    ) -> SeriesOfTrials:
    """The curves of these trials (public ids or numbers) in this order; unknown ones are left out. ``metric``: of a
    further one, read from what was reported, of these trials alone.
    """
    # a public id begins with a letter
    numbers = [number for trial_id in trial_ids if (number := whole_number(trial_id)) is not None and number < 2 ** 31]
    trials = Trial.objects.filter(
        Q(public_id__in=trial_ids) | Q(sequence_id__in=numbers), experiment=experiment).annotate(is_resumed=IS_RESUMED)
    found = {key: trial for trial in trials for key in (trial.public_id, str(trial.sequence_id))}
    chosen = list(dict.fromkeys(found[trial_id] for trial_id in trial_ids if trial_id in found))
    return SeriesOfTrials(_series(chosen, points, metric), len(chosen))


def series_of_which(experiment: Experiment, which: Which, count: int, points: int, metric: str | None = None
                    ) -> SeriesOfTrials:
    """The curves of at most ``count`` trials of a kind. Two queries, as for any number of trials; one
    more where an attempt went on from a checkpoint.
    """
    found = _of_kind(experiment, which)
    # counted beside them: a window would have the database carry all rows of all trials through it
    total = Subquery(found.order_by().values("experiment").annotate(total=Count("pk")).values("total"))
    chosen = list(found.annotate(total=total, is_resumed=IS_RESUMED)[:count])
    return SeriesOfTrials(_series(chosen, points, metric), chosen[0].total if chosen else 0)


def whole_curves(trials: Sequence[Trial]) -> list[Series]:
    """The curves of these trials with every point. One query if they were asked for with ``is_resumed``."""
    return _series(trials, sys.maxsize, None)


def _of_kind(experiment: Experiment, which: Which) -> QuerySet[Trial]:
    trials = Trial.objects.filter(experiment=experiment)
    newest_first = trials.order_by("-sequence_id")
    if which is Which.TOP:
        falls = experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE
        return trials.filter(counts_for_best()).order_by(
            F("final_number").desc() if falls else F("final_number").asc(), "sequence_id")
    if which is Which.RUNNING:
        return newest_first.filter(status=TrialJobStatus.RUNNING.value)
    if which is Which.STOPPED:
        return newest_first.filter(status=TrialJobStatus.EARLY_STOPPED.value)
    return newest_first.filter(intermediate_count__gt=0)


def _series(trials: Sequence[Trial], points: int, metric: str | None) -> list[Series]:
    """One query, in the order of its index, so that the database need not sort; some more where an attempt went on from
    a checkpoint.
    """
    chains = chains_of([trial.pk for trial in trials if getattr(trial, "is_resumed", True)])
    later = Attempt.objects.filter(trial=OuterRef("trial"), number__gt=OuterRef("number"))
    alone = Attempt.objects.filter(~Exists(later), trial__in=[trial.pk for trial in trials if trial.pk not in chains])
    # an attempt may be part of several curves: those of trials that continue its own, and that of its own
    curves_with: dict[int, list[tuple[int, int]]] = {}
    for trial_pk, chain in chains.items():
        for attempt, first in chain.items():
            curves_with.setdefault(attempt, []).append((trial_pk, first))
    which = Q(attempt__in=alone)
    if chains:
        for attempt, trial_pk in alone.filter(pk__in=list(curves_with)).values_list("pk", "trial"):
            curves_with[attempt].append((trial_pk, 0))
        which |= Q(attempt__in=list(curves_with))
    rows = Metric.objects.filter(which, kind=contract.PERIODICAL).order_by("attempt", "n")
    if metric is None:
        rows = rows.filter(number__isnull=False)
    series = {trial.pk: Series(trial, final=trial.final_number) for trial in trials}
    if metric is not None:
        finals = dict(MetricNumber.objects.filter(trial__in=list(series), metric__name=metric).values_list(
            "trial", "final"))
        for pk, one in series.items():
            one.final = finals.get(pk)
    joined: dict[int, _Curve] = {}
    for (attempt, trial_pk), reported in groupby(_reports(rows, metric), key=lambda row: row[:2]):
        if (curves := curves_with.get(attempt)) is None:
            curve = _Curve()
            curve.take(reported, 0)
            curve.fill(series[trial_pk], points)
            continue
        known = list(reported)
        for of_trial, first in curves:
            joined.setdefault(of_trial, _Curve()).take(known, first)
    for trial_pk, curve in joined.items():
        curve.fill(series[trial_pk], points)
    return list(series.values())


class _Curve:
    """What the attempts of one curve reported, the first one first."""

    def __init__(self) -> None:
        self._values: dict[int, float] = {}
        self._seconds: dict[int, float] = {}

    def take(self, reported: Iterable[_Report], first: int) -> None:
        """Of one attempt, whose results begin at ``first``; its time goes on from the result before that."""
        values, seconds = self._values, self._seconds
        before = max((seconds[step] for step in seconds if step < first), default=0.0) if first else 0.0
        began: datetime | None = None
        for _, _, sequence, number, at, started_at in reported:
            if number is not None:
                began = began or started_at or at
                values[first + sequence] = number
                seconds[first + sequence] = before + max(0.0, (at - began).total_seconds())

    def fill(self, one: Series, points: int) -> None:
        curve = sorted(self._values.items())
        kept = thinned(curve, points)
        one.steps, one.values = [step for step, _ in kept], [value for _, value in kept]
        one.seconds = [self._seconds[step] for step, _ in kept]
        one.left_out = len(curve) - len(kept)


def _reports(rows: QuerySet[Metric], metric: str | None) -> Iterator[_Report]:
    columns = ("attempt", "attempt__trial", "sequence", "number", "recorded_at", "attempt__started_at")
    if metric is None:
        yield from rows.values_list(*columns).iterator(5000)
        return
    for attempt, trial, sequence, _, at, began, value in rows.values_list(*columns, "value").iterator(5000):
        named = numbers_in(str(value))[1]
        yield attempt, trial, sequence, (named or {}).get(metric), at, began


def thinned(curve: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """At most ``most`` (four or more) points of a curve: both ends, and of each stretch between them the least and the
    greatest, so that no peak is lost.
    """
    if len(curve) <= most:
        return list(curve)
    inner, stretches = curve[1:-1], (most - 2) // 2
    size = math.ceil(len(inner) / stretches)
    kept = {curve[0], curve[-1]}
    for start in range(0, len(inner), size):
        stretch = inner[start:start + size]
        kept |= {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
    return sorted(kept)
