"""The best result over an experiment's trials, in order of sequence: what sparklines draw. One query for many."""

from collections.abc import Collection, Sequence
from typing import TypeVar

from django.db.models import Case, F, FloatField, Max, Q, RowRange, When, Window

from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.models.trial import RESULTS

#: Most points of one sparkline.
MOST_POINTS = 40

Point = TypeVar("Point")


def improvements_of(experiment_keys: Collection[int], most: int = MOST_POINTS) -> dict[int, list[tuple[int, float]]]:
    """By primary key: ``(sequence_id, value)`` of each trial better than all before it, thinned to ``most`` points."""
    # falling where less is better, so that a new maximum is an improvement in both modes
    height = Case(When(experiment__optimize_mode=Experiment.OptimizeMode.MAXIMIZE, then=F("final_number")),
                  default=-F("final_number"), output_field=FloatField())
    before = Window(Max("height"), partition_by=F("experiment_id"), order_by=F("sequence_id").asc(),
                    frame=RowRange(None, -1))
    # with several objectives there is no best
    results = Trial.objects.filter(experiment__in=experiment_keys, experiment__objectives__1__isnull=True,
                                   status__in=RESULTS, final_number__isnull=False)
    rows = results.annotate(height=height).annotate(before=before).filter(
        Q(before=None) | Q(height__gt=F("before"))).order_by("experiment_id", "sequence_id")
    found: dict[int, list[tuple[int, float]]] = {key: [] for key in experiment_keys}
    for key, sequence_id, value in rows.values_list("experiment_id", "sequence_id", "final_number"):
        if value is not None:
            found[key].append((sequence_id, value))
    return {key: evenly(points, most) for key, points in found.items()}


def evenly(points: Sequence[Point], most: int) -> list[Point]:
    """At most ``most`` (two or more) of the points, spread evenly; the first and the last always."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(index * step)] for index in range(most)]
