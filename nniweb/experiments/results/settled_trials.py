"""Counts of trials whose cost does not grow with the history: of those that ended for good they are kept.

What is kept (``SettledTrials``) is exact, however late it is: it says which trials are in it, and all others are
counted. Experiments of which nothing is kept yet are counted as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, F, FloatField, OuterRef, Q, QuerySet, Value

from nniweb.experiments.models import Experiment, SettledTrials, Trial

#: Experiments whose later trials are asked for in one question: the condition grows with them.
AT_ONCE = 50


@dataclass(frozen=True)
class Settled:
    """What is kept of one experiment; the fields are those of ``SettledTrials``."""

    until: int
    open_trials: Sequence[int]
    counts: Mapping[str, int]
    improvements: Sequence[tuple[int, float]] | None
    seconds: float
    first_began: datetime | None
    last_ended: datetime | None
    #: Whether no trial follows.
    is_all: bool


def settled_of(experiments: Collection[int], *, with_improvements: bool = False) -> dict[int, Settled]:
    """By primary key of the experiment, of those of which something is kept. One query.

    ``with_improvements``: those, too, which may be thousands of each experiment; without it there are None.
    """
    rows = SettledTrials.objects.filter(experiment__in=experiments).values_list(
        "experiment", "until", "open_trials", "counts",
        "improvements" if with_improvements else Value(None, FloatField()), "seconds", "first_began", "last_ended",
        F("experiment__next_sequence_id"))
    return {key: Settled(until, open_trials, counts,
                         None if improvements is None else [(number, value) for number, value in improvements],
                         seconds, first_began, last_ended, 0 < next_number == until)
            for key, until, open_trials, counts, improvements, seconds, first_began, last_ended, next_number in rows}


def trial_counts(experiments: Collection[int]) -> dict[int, Counter[str]]:
    """Of each experiment, how many trials have which status. One query where nothing is kept, and a few more for all
    that have something.
    """
    found: dict[int, Counter[str]] = {key: Counter() for key in experiments}
    # only what the index of experiment and status holds: the rows themselves take four times as long
    counted = Trial.objects.filter(experiment__in=without(experiments))
    kept = SettledTrials.objects.filter(experiment__in=experiments).annotate(status=Value(""), count=Value(0))
    kept_of = []
    for key, status, count in _by_status(counted).union(kept.values_list("experiment", "status", "count"), all=True):
        if status:
            found[key][status] = count
        else:
            kept_of.append(key)
    settled = settled_of(kept_of)
    for key, one in settled.items():
        found[key].update(one.counts)
    for condition in beyond(settled):
        for key, status, count in _by_status(Trial.objects.filter(condition)):
            found[key][status] += count
    if gone := [key for key in kept_of if key not in settled]:  # it was thrown away meanwhile
        found |= trial_counts(gone)
    return found


def _by_status(trials: QuerySet[Trial]) -> QuerySet[Trial, Any]:
    return trials.values_list("experiment", "status").annotate(count=Count("pk")).order_by()


def without(experiments: Collection[int], **kept: Any) -> QuerySet[Experiment, Any]:
    """Those of which nothing is kept; ``kept``: or of which that is not so, such as ``improvements__isnull=False``."""
    some = SettledTrials.objects.filter(experiment=OuterRef("pk"), **kept)
    return Experiment.objects.filter(~Exists(some), pk__in=experiments).values("pk")


def beyond(settled: Mapping[int, Settled], way: str = "") -> Iterator[Q]:
    """Conditions of the trials that are not added up, some experiments in each: no trial fits two of them. ``way``: to
    the trial, such as ``trial__``.
    """
    later = [(key, one.until) for key, one in settled.items() if not one.is_all]
    for start in range(0, len(later), AT_ONCE):
        condition = Q()
        for key, until in later[start:start + AT_ONCE]:
            condition |= Q(**{f"{way}experiment": key, f"{way}sequence_id__gte": until})
        yield condition
    waiting = [pk for one in settled.values() for pk in one.open_trials]
    for start in range(0, len(waiting), 1000):
        yield Q(**{f"{way}pk__in": waiting[start:start + 1000]})
