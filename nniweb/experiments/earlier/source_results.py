"""The results of an experiment that are worth handing on: the best ones, and some of all the others."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db.models import F

from nniweb.experiments.models import Experiment, MetricNumber, Proposal, Trial, TrialParameters
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import counts_for_best
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.tuning.guidance.mapped_parameters import map_parameters
from nniweb.tuning.replicates import mean_and_error
from nniweb.tuning.search_space.space import Parameters, SearchSpace, point_key
from nniweb.tuning.tuner_base.pareto_front import losses_of

#: Results that are taken of one experiment at most, and those of them that are the best.
MOST_TAKEN, BEST_TAKEN = 100, 40
#: Results that are looked at for that, and the characters of JSON that they may have in all.
_LOOKED_AT, _MOST_CHARACTERS = 400, 250_000

T = TypeVar("T")
Key = TypeVar("Key", int, str)


@dataclass
class SourceResults:
    """``results``: parameters in the new search space and the value (with several objectives a list of them), the best
    first. ``misfits``: by parameter and code of ``mapped_parameters``, of the results that were looked at.
    """

    available: int
    results: list[tuple[Parameters, float | list[float]]] = field(default_factory=list)
    misfits: dict[str, dict[str, int]] = field(default_factory=dict)


def results_for(experiment: Experiment, space: SearchSpace, objectives: Sequence[Mapping[str, Any]] = ()
                ) -> SourceResults:
    """What ``experiment`` has for a search in ``space`` by ``objectives``, which it has too (in the form of
    ``Experiment.objectives``; none: its main metric). Results of equal parameters count as one with their mean; those
    that violate constraints on outcomes, lack an objective, or are of changed code (variants) are left out.
    """
    wanted = objectives or [{"metric": main_metric(experiment.objectives), "optimize_mode": experiment.optimize_mode}]
    metrics, modes = zip(*((one["metric"], one["optimize_mode"]) for one in wanted), strict=True)
    values = _values(experiment, metrics)
    trials = [(pk, values[pk]) for pk in _best_first(sorted(values), values, modes)]
    chosen = dict(spread(trials, _LOOKED_AT, _LOOKED_AT * BEST_TAKEN // MOST_TAKEN))
    given = TrialParameters.objects.filter(trial__in=list(chosen), index=F("trial__result_index")).order_by(
        "trial").values_list("trial", "value")
    found = SourceResults(len(trials))
    of_point: dict[str, list[list[float]]] = defaultdict(list)
    points: dict[str, Parameters] = {}
    misfits: dict[str, Counter[str]] = defaultdict(Counter)
    for trial, parameters in given:
        mapped = map_parameters(space, parameters if isinstance(parameters, dict) else {})
        for path, code in mapped.misfits.items():
            misfits[path][code] += 1
        if mapped.is_usable:
            key = point_key(mapped.parameters)
            points.setdefault(key, mapped.parameters)
            of_point[key].append(chosen[trial])
    found.misfits = {path: dict(codes) for path, codes in misfits.items()}
    means = {key: mean for key, those in of_point.items() if (mean := _mean(those)) is not None}
    left = _MOST_CHARACTERS
    for key in spread(_best_first(sorted(means), means, modes), MOST_TAKEN, BEST_TAKEN):
        left -= len(json.dumps(points[key]))
        if left >= 0:
            found.results.append((points[key], means[key] if len(modes) > 1 else means[key][0]))
    return found


def _best_first(keys: Sequence[Key], values: Mapping[Key, Sequence[float]], modes: Sequence[str]) -> list[Key]:
    """Of equal ones the first first. With several objectives in turn the best of each direction."""
    losses = {key: losses_of(values[key], modes) for key in keys}
    if len(modes) > 1 and keys:
        import numpy as np  # a server starts without it

        from nniweb.tuning.guidance.objective_directions import best_of_all_directions

        return [keys[place] for place in best_of_all_directions(np.array([losses[key] for key in keys]))]
    return sorted(keys, key=losses.__getitem__)


def _mean(values: Sequence[Sequence[float]]) -> list[float] | None:
    """Of each objective; None where it is no number."""
    means = [mean for of_one in zip(*values, strict=True) if (mean := mean_and_error(of_one)[0]) is not None]
    return means if len(means) == len(values[0]) else None


def _values(experiment: Experiment, metrics: Sequence[str]) -> dict[int, list[float]]:
    """Of each result by trial (primary key) a number for each metric; with replicates of the first trial the mean."""
    if experiment.has_replicates:
        means = dict(Proposal.objects.filter(experiment=experiment, state=ProposalState.COMPLETE, mean__isnull=False)
                     .values_list("first_sequence_id", "mean"))
        first = Trial.objects.filter(experiment=experiment, sequence_id=F("proposal__first_sequence_id"), variant=None)
        return {pk: [mean] for pk, sequence_id in first.values_list("pk", "sequence_id")
                if (mean := means.get(sequence_id)) is not None}
    main = main_metric(experiment.objectives)
    results = dict(Trial.objects.filter(counts_for_best(), experiment=experiment, variant=None).values_list(
        "pk", "final_number"))
    of_metrics = [results if metric == main else dict(
        MetricNumber.objects.filter(metric__experiment=experiment, metric__name=metric, final__isnull=False)
        .values_list("trial", "final")) for metric in metrics]
    found = {pk: [number for of_one in of_metrics if (number := of_one.get(pk)) is not None] for pk in results}
    return {pk: numbers for pk, numbers in found.items() if len(numbers) == len(metrics)}


def spread(ranked: Sequence[T], most: int, best: int) -> list[T]:
    """At most so many of them: the ``best`` first ones, and of the others some at equal distances, the last among
    them.
    """
    if len(ranked) <= most:
        return list(ranked)
    others = most - best
    step = (len(ranked) - 1 - best) / (others - 1)
    return [*ranked[:best], *(ranked[best + round(index * step)] for index in range(others))]
