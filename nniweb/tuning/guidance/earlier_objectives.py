"""Proposals from results of earlier experiments where several objectives are searched by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from nniweb.tuning.guidance.earlier_search import (
    CURIOSITY,
    FEWEST_COMPARED,
    LARGEST_SHARE,
    Agreement,
    EarlierResult,
    EarlierSearch,
)
from nniweb.tuning.guidance.mapped_parameters import map_parameters
from nniweb.tuning.guidance.objective_directions import along, best_of_all_directions
from nniweb.tuning.guidance.opening_points import RankedPoints, opening_points
from nniweb.tuning.search_space.coordinate_table import CoordinateTable, Table
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.pareto_front import ParetoFront, losses_of

# Points of the front that are looked around for a proposal, and how closely.
_CENTRES = 5
_NEIGHBOURS = 60
_CHOICES = 50


@dataclass(frozen=True)
class EarlierPoint:
    """A point (perhaps without some of the parameters) and its loss in each objective."""

    parameters: Parameters
    losses: tuple[float, ...]


class EarlierObjectivesSearch:
    """An ``EarlierSearch`` for each objective, which hears the values of that objective. It opens with the best
    distinct points of the earlier fronts, one more than there are objectives, every second proposal.

    A proposal is the best point of a random direction (``objective_directions``), of what the models of the objectives
    predict together (as in Knowles, ParEGO, IEEE Transactions on Evolutionary Computation 10, 2006, which has one model
    of the direction; with one of each objective an earlier experiment may agree in one of them and mislead in another).
    The weight of an earlier experiment is the mean over the objectives, and its correlation the mean over those in
    which it agrees (over all where it agrees in none).
    """

    def __init__(self, space: SearchSpace, seed: int, modes: Sequence[str], earlier: Sequence[Sequence[EarlierPoint]]
                 ) -> None:
        self.space = space
        self.seed = seed
        self._modes = tuple(modes)
        self._earlier = earlier
        self._of_each = [EarlierSearch(space, seed, mode, [
            [EarlierResult(one.parameters, one.losses[place]) for one in points] for points in earlier])
            for place, mode in enumerate(modes)]
        self._front: ParetoFront[int] = ParetoFront()
        self._learn()

    def _learn(self) -> None:
        self._table = CoordinateTable(self.space)
        ranked = [self._ranked(points) for points in self._earlier]
        self._openings = opening_points(ranked, len(self._modes) + 1)

    def _ranked(self, points: Sequence[EarlierPoint]) -> RankedPoints:
        fitting = [(self.space.coordinates(mapped.parameters), one.losses) for one in points
                   if (mapped := map_parameters(self.space, one.parameters)).is_usable]
        if not fitting:
            return RankedPoints([], np.zeros((0, 1)))
        order = best_of_all_directions(np.array([losses for _, losses in fitting]))
        coordinates = [fitting[place][0] for place in order]
        return RankedPoints(coordinates, self._table.features(self._table.rows(coordinates)))

    @property
    def _one(self) -> EarlierSearch:
        """For what is the same in all of them."""
        return self._of_each[0]

    def wants(self, number: int) -> bool:
        """Whether proposal ``number`` is to follow from the earlier results."""
        if self._one.told >= FEWEST_COMPARED:
            weight = fmean(max((one.weight for one in search.agreements()), default=0.0) for search in self._of_each)
            return float(np.random.default_rng([self.seed, number, 1]).random()) < LARGEST_SHARE * weight
        return number % 2 == 0 and number // 2 < len(self._openings) \
            and not all(search.is_reversed() for search in self._of_each)

    def propose(self, number: int) -> Parameters:
        rng = np.random.default_rng([self.seed, number, 2])
        if self._one.told >= FEWEST_COMPARED and any(one.weight for one in self.agreements()):
            return self._one.points.first_of(self._rated(rng), rng)
        return self._one.points.first_of((self._one.filled(one, rng) for one in self._openings[number // 2:]), rng)

    def _rated(self, rng: np.random.Generator) -> Iterator[Parameters]:
        models = [search.fitted(rng)[0] for search in self._of_each]
        front = self._features_of_front()
        candidates = self._candidates(rng)
        features = self._table.features(candidates)
        losses = []
        for model in models:
            reached = model.predict(front)[0]
            reach = float(np.ptp(reached))
            means, deviations = model.predict(features)
            losses.append((means - CURIOSITY * deviations - reached.min()) / (reach if reach > 1e-9 else 1.0))
        order = np.argsort(along(np.stack(losses, axis=1), rng.dirichlet(np.ones(len(models)))), kind="stable")
        return (self._table.parameters(candidates[row]) for row in self._one.allowed(candidates, order, _CHOICES))

    def _candidates(self, rng: np.random.Generator) -> Table:
        """Those of each objective, and those around points of the front."""
        places = sorted(self._front.points)
        chosen = rng.permutation(len(places))[:_CENTRES]
        rows = self._table.rows(self._one.records[places[index]].coordinates for index in chosen)
        return np.vstack([*(search.candidates(rng) for search in self._of_each),
                          *(self._table.near(row, _NEIGHBOURS, rng) for row in rows)])

    def _features_of_front(self) -> Table:
        """Of all results as long as none is feasible."""
        places = sorted(self._front.points) or [
            place for place, record in enumerate(self._one.records) if record.loss is not None]
        return self._one.features(places)

    def agreements(self) -> list[Agreement]:
        """Of each earlier experiment with the results so far."""
        return [_mean(of_one) for of_one in zip(*(search.agreements() for search in self._of_each), strict=True)]

    def note_asked(self, number: int, parameters: Parameters) -> None:
        for search in self._of_each:
            search.note_asked(number, parameters)

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        self.note_asked(event["number"], event["parameters"])

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        """One number says nothing of several objectives."""
        self.tell_event({"number": number, "parameters": parameters, "value": value, "status": status,
                         "violation": violation})

    def tell_event(self, event: Mapping[str, Any]) -> None:
        values = event.get("values")
        if values is not None and not all(value is not None and math.isfinite(value) for value in values):
            values = None
        before = self._one.told
        for place, search in enumerate(self._of_each):
            search.tell_event({**event, "value": None if values is None else values[place]})
        if values is not None and self._one.told > before and not event.get("violation"):
            self._front.add(self._one.newest_told, losses_of(values, self._modes))

    def update_search_space(self, space: SearchSpace) -> None:
        self.space = space
        for search in self._of_each:
            search.update_search_space(space)
        self._learn()


def _mean(of_objectives: Sequence[Agreement]) -> Agreement:
    agreeing = [one for one in of_objectives if one.weight] or of_objectives
    known = [one.correlation for one in agreeing if one.correlation is not None]
    return Agreement(of_objectives[0].compared, fmean(known) if known else None,
                     fmean(one.weight for one in of_objectives))
