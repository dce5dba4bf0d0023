"""Compares what is kept of settled trials with what the rows say. Read-only, but for ``forget_all``."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator

from django.db.models import Count

from nniweb.experiments.models import Experiment, SettledTrials, Trial
from nniweb.experiments.models.trial import counts_for_best
from nniweb.experiments.results.best_so_far import improvements, improvements_of
from nniweb.experiments.results.settled_trials import trial_counts

#: Experiments that are compared together.
AT_ONCE = 20


def differing_experiments() -> Iterator[Experiment]:
    """Those whose kept figures are not those of their rows. Looks at the rows of all trials: seconds for a million."""
    last = 0
    while keys := list(SettledTrials.objects.filter(experiment__gt=last, experiment__deleted_at=None).order_by(
            "experiment").values_list("experiment", flat=True)[:AT_ONCE]):
        last = keys[-1]
        differing = _differing(keys)
        if differing:  # a trial may have changed between two questions: what is wrong is so the second time, too
            yield from Experiment.objects.filter(pk__in=_differing(differing))


def _differing(keys: Collection[int]) -> list[int]:
    kept, counted = trial_counts(keys), {key: dict[str, int]() for key in keys}
    for key, status, count in Trial.objects.filter(experiment__in=keys).values_list("experiment", "status").annotate(
            Count("pk")).order_by():
        counted[key][status] = count
    best, shown = _improvements(keys), improvements_of(keys, sys.maxsize)
    has_best = set(SettledTrials.objects.filter(experiment__in=keys, improvements__isnull=False).values_list(
        "experiment", flat=True))
    return [key for key in keys if dict(kept[key]) != counted[key] or key in has_best and shown[key] != best[key]]


def _improvements(keys: Collection[int]) -> dict[int, list[tuple[int, float]]]:
    modes = dict(Experiment.objects.filter(pk__in=keys).values_list("pk", "optimize_mode"))
    points: dict[int, list[tuple[int, float]]] = {key: [] for key in keys}
    for key, number, value in Trial.objects.filter(counts_for_best(), experiment__in=keys).order_by(
            "experiment", "sequence_id").values_list("experiment", "sequence_id", "final_number").iterator(5000):
        if value is not None:
            points[key].append((number, value))
    return {key: improvements(found, greater_is_better=modes.get(key) == Experiment.OptimizeMode.MAXIMIZE)
            for key, found in points.items()}


def forget_all() -> int:
    """Throw away what is kept; how many experiments that were. Workers count anew, and pages count until then."""
    count, _ = SettledTrials.objects.all().delete()
    Experiment.objects.filter(deleted_at=None).update(look_after_at=None)
    return count
