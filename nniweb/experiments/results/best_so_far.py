"""The best result over an experiment's trials, in order of sequence: what sparklines draw. A few queries for many."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

from django.db.models import BigIntegerField, Case, F, FloatField, Max, Q, QuerySet, RowRange, Value, When, Window

from nniweb.experiments.models import Experiment, Proposal, SettledTrials, Trial
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import counts_for_best
from nniweb.experiments.results.settled_trials import beyond, settled_of, without

#: Most points of one sparkline.
MOST_POINTS = 40
#: In the place of a number: the improvements of this experiment are kept.
_KEPT = -1

Point = TypeVar("Point")


def improvements_of(experiment_keys: Collection[int], most: int = MOST_POINTS) -> dict[int, list[tuple[int, float]]]:
    """By primary key: ``(sequence_id, value)`` of each trial better than all before it, thinned to ``most``. With
    replicates those of proposals that were run in full, by their first trials.
    """
    found: dict[int, list[tuple[int, float]]] = {key: [] for key in experiment_keys}
    counted = without(experiment_keys, improvements__isnull=False)
    # with several objectives there is no best; with replicates proposals have the results
    results = Trial.objects.filter(counts_for_best(), experiment__in=counted,
                                   experiment__objectives__1__isnull=True, proposal__isnull=True)
    means = Proposal.objects.filter(experiment__in=counted, state=ProposalState.COMPLETE, mean__isnull=False)
    kept = SettledTrials.objects.filter(experiment__in=experiment_keys, improvements__isnull=False).annotate(
        number=Value(_KEPT, BigIntegerField()), value=Value(None, FloatField()))
    rows = _improving(results, "final_number", "sequence_id").union(
        _improving(means, "mean", "first_sequence_id"), kept.values_list("experiment_id", "number", "value"),
        all=True).order_by("experiment_id", "sequence_id")
    kept_of = []
    for key, sequence_id, value in rows:
        if value is not None:
            found[key].append((sequence_id, value))
        elif sequence_id == _KEPT:
            kept_of.append(key)
    if kept_of:
        found |= _of_settled(kept_of)
    return {key: evenly(points, most) for key, points in found.items()}


def _of_settled(experiment_keys: Collection[int]) -> dict[int, list[tuple[int, float]]]:
    """Of experiments whose improvements are kept. What is none among some trials is none among more of them."""
    settled = settled_of(experiment_keys, with_improvements=True)
    found = {key: list(one.improvements or ()) for key, one in settled.items()}
    for condition in beyond(settled):
        for key, sequence_id, value in Trial.objects.filter(counts_for_best(), condition).values_list(
                "experiment", "sequence_id", "final_number"):
            if value is not None:
                found[key].append((sequence_id, value))
    modes = dict(Experiment.objects.filter(pk__in=found).values_list("pk", "optimize_mode"))
    return {key: improvements(sorted(points), greater_is_better=modes.get(key) == Experiment.OptimizeMode.MAXIMIZE)
            for key, points in found.items()}


def improvements(points: Iterable[tuple[int, float]], *, greater_is_better: bool) -> list[tuple[int, float]]:
    """Of (number, value), in order of number, those whose value is better than all before."""
    found: list[tuple[int, float]] = []
    for number, value in points:
        if not found or (value > found[-1][1] if greater_is_better else value < found[-1][1]):
            found.append((number, value))
    return found


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
