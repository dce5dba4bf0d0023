"""The results of an experiment that are worth handing on: the best ones, and some of all the others."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypeVar

from django.db.models import F

from nniweb.experiments.models import Experiment, Proposal, Trial, TrialParameters
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import counts_for_best
from nniweb.tuning.guidance.mapped_parameters import map_parameters
from nniweb.tuning.search_space.space import Parameters, SearchSpace, point_key

#: Results that are taken of one experiment at most, and those of them that are the best.
MOST_TAKEN, BEST_TAKEN = 100, 40
#: Results that are looked at for that, and the characters of JSON that they may have in all.
_LOOKED_AT, _MOST_CHARACTERS = 400, 250_000

T = TypeVar("T")


@dataclass
class SourceResults:
    """``results``: parameters in the new search space and the value, the best first. ``misfits``: by parameter and code
    of ``mapped_parameters``, of the results that were looked at.
    """

    available: int
    results: list[tuple[Parameters, float]] = field(default_factory=list)
    misfits: dict[str, dict[str, int]] = field(default_factory=dict)


def results_for(experiment: Experiment, space: SearchSpace) -> SourceResults:
    """What ``experiment`` has for a search in ``space``. Results of equal parameters count as one with their mean;
    those that violate constraints on outcomes are left out.
    """
    sign = -1.0 if experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE else 1.0
    trials = sorted(_values(experiment), key=lambda one: (sign * one[1], one[0]))
    chosen = dict(spread(trials, _LOOKED_AT, _LOOKED_AT * BEST_TAKEN // MOST_TAKEN))
    given = TrialParameters.objects.filter(trial__in=list(chosen), index=F("trial__result_index")).order_by(
        "trial").values_list("trial", "value")
    found = SourceResults(len(trials))
    values: dict[str, list[float]] = defaultdict(list)
    points: dict[str, Parameters] = {}
    misfits: dict[str, Counter[str]] = defaultdict(Counter)
    for trial, parameters in given:
        mapped = map_parameters(space, parameters if isinstance(parameters, dict) else {})
        for path, code in mapped.misfits.items():
            misfits[path][code] += 1
        if mapped.is_usable:
            key = point_key(mapped.parameters)
            points.setdefault(key, mapped.parameters)
            values[key].append(chosen[trial])
    found.misfits = {path: dict(codes) for path, codes in misfits.items()}
    means = sorted(((points[key], fmean(those)) for key, those in values.items()),
                   key=lambda one: (sign * one[1], point_key(one[0])))
    left = _MOST_CHARACTERS
    for parameters, value in spread(means, MOST_TAKEN, BEST_TAKEN):
        left -= len(json.dumps(parameters))
        if left >= 0:
            found.results.append((parameters, value))
    return found


def _values(experiment: Experiment) -> list[tuple[int, float]]:
    """Of each result the trial (primary key) and its number; with replicates the first trial and the mean."""
    if experiment.has_replicates:
        means = dict(Proposal.objects.filter(experiment=experiment, state=ProposalState.COMPLETE, mean__isnull=False)
                     .values_list("first_sequence_id", "mean"))
        first = Trial.objects.filter(experiment=experiment, sequence_id=F("proposal__first_sequence_id"))
        found = [(pk, means.get(sequence_id)) for pk, sequence_id in first.values_list("pk", "sequence_id")]
    else:
        trials = Trial.objects.filter(counts_for_best(), experiment=experiment)
        found = list(trials.values_list("pk", "final_number"))
    return [(pk, value) for pk, value in found if value is not None]


def spread(ranked: Sequence[T], most: int, best: int) -> list[T]:
    """At most so many of them: the ``best`` first ones, and of the others some at equal distances, the last among
    them.
    """
    if len(ranked) <= most:
        return list(ranked)
    others = most - best
    step = (len(ranked) - 1 - best) / (others - 1)
    return [*ranked[:best], *(ranked[best + round(index * step)] for index in range(others))]
