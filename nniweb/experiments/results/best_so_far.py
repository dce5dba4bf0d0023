"""The best result over an experiment's trials, in order of sequence: what sparklines draw. One query for many."""

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from django.db.models import Case, F, FloatField, Max, Q, QuerySet, RowRange, When, Window

from nniweb.experiments.models import Experiment, Proposal, Trial
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import counts_for_best

#: Most points of one sparkline.
MOST_POINTS = 40

Point = TypeVar("Point")


def improvements_of(experiment_keys: Collection[int], most: int = MOST_POINTS) -> dict[int, list[tuple[int, float]]]:
    """By primary key: ``(sequence_id, value)`` of each trial better than all before it, thinned to ``most``. With
    replicates those of proposals that were run in full, by their first trials.
    """
    # with several objectives there is no best; with replicates proposals have the results
    results = Trial.objects.filter(counts_for_best(), experiment__in=experiment_keys,
                                   experiment__objectives__1__isnull=True, proposal__isnull=True)
    means = Proposal.objects.filter(experiment__in=experiment_keys, state=ProposalState.COMPLETE, mean__isnull=False)
    found: dict[int, list[tuple[int, float]]] = {key: [] for key in experiment_keys}
    rows = _improving(results, "final_number", "sequence_id").union(
        _improving(means, "mean", "first_sequence_id"), all=True).order_by("experiment_id", "sequence_id")
    for key, sequence_id, value in rows:
        if value is not None:
            found[key].append((sequence_id, value))
    return {key: evenly(points, most) for key, points in found.items()}


def _improving(rows: QuerySet[Any], value: str, sequence: str) -> QuerySet[Any, Any]:
    # falling where less is better, so that a new maximum is an improvement in both modes
    height = Case(When(experiment__optimize_mode=Experiment.OptimizeMode.MAXIMIZE, then=F(value)),
                  default=-F(value), output_field=FloatField())
    before = Window(Max("height"), partition_by=F("experiment_id"), order_by=F(sequence).asc(),
                    frame=RowRange(None, -1))
    improving: QuerySet[Any, Any] = rows.annotate(height=height).annotate(before=before).filter(
        Q(before=None) | Q(height__gt=F("before"))).order_by().values_list("experiment_id", sequence, value)
    return improving


def evenly(points: Sequence[Point], most: int) -> list[Point]:
    """At most ``most`` (two or more) of the points, spread evenly; the first and the last always."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(index * step)] for index in range(most)]
