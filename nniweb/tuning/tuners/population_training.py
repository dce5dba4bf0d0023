"""NNI's PBTTuner: a population trains in generations; the worst take over what the best have learnt, slightly changed.

A trial loads the model in ``load_checkpoint_dir`` (where there is one), trains for a while, and saves to
``save_checkpoint_dir``. The folders are on storage that all trials share; or keepers carry what is in them from trial
to trial, which then find folders of their own there.
"""

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nniweb.tuning.checkpoint_parameters import LOAD_KEY, SAVE_KEY
from nniweb.tuning.class_args import PbtArgs
from nniweb.tuning.search_space.nearest_allowed import nearest_allowed
from nniweb.tuning.search_space.space import NestedChoice, Numeric, Parameter, Parameters, Path, RandInt, SearchSpace
from nniweb.tuning.tuner_base.tuner import ResultsNeeded, Tuner

#: What the folders are below where keepers carry their content: names only, which no trial is given.
CARRIED = "checkpoints"
# Changes that are looked at for one that the constraints allow.
_LOOKS = 20


@dataclass
class _Member:
    """One place of the population in the present generation. ``parent``: the number of the trial that saved what it
    loads, None where nothing was saved yet.
    """

    configuration: Parameters
    load_folder: str
    parent: int | None = None
    number: int | None = None
    has_ended: bool = False
    loss: float | None = None
    #: How far the result is from satisfying the constraints on outcomes.
    violation: float = 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """Less for better; a member without a result is the worst."""
        return (math.inf, math.inf) if self.loss is None else (self.violation, self.loss)


class PopulationTraining(Tuner):
    """When all of a generation have ended, each of the worst ``fraction`` goes on from the checkpoint of a random one
    of the best ``fraction``, with its parameters changed: each is drawn anew with ``resample_probability``, else a
    number is multiplied by 1 + factor or 1 - factor and a choice moves to a neighbour. The others go on unchanged from
    their own checkpoints. A member that failed counts as the worst.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, args: PbtArgs, folder: str) -> None:
        super().__init__(space, seed)
        self._sign = -1.0 if optimize_mode == "maximize" else 1.0
        self._args = args
        self._folder = folder
        self._generation = 0
        rng = self._rng_of_generation()
        self._members = [_Member(space.sample(rng), self._path(0, place)) for place in range(args.population_size)]
        self._by_number: dict[int, _Member] = {}

    def propose(self, number: int) -> Parameters:
        for place, member in enumerate(self._members):
            if member.number is None:
                return {
                    **member.configuration,
                    LOAD_KEY: member.load_folder,
                    SAVE_KEY: self._path(self._generation + 1, place),
                }
        raise ResultsNeeded("the next generation depends on the results of this one")

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        self.note_asked(event["number"], event["parameters"])
        if (parent := event.get("continues")) is not None:
            self._by_number[event["number"]].parent = parent

    def continues(self, number: int) -> int | None:
        member = self._by_number.get(number)
        return None if member is None else member.parent

    def note_asked(self, number: int, parameters: Parameters) -> None:
        place = int(re.findall(r"\d+", parameters[SAVE_KEY])[-1])
        member = self._members[place]
        member.number = number
        member.load_folder = parameters[LOAD_KEY]
        member.configuration = {name: value for name, value in parameters.items() if name not in (LOAD_KEY, SAVE_KEY)}
        self._by_number[number] = member

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        member = self._by_number.get(number) if number is not None else None
        if member is None or (member.has_ended and member.loss is not None):
            return
        if value is not None and math.isfinite(value) and status != "FAILED":  # it has no checkpoint to go on from
            member.loss, member.violation = self._sign * value, violation
        member.has_ended = True
        if all(member.has_ended for member in self._members):
            self._next_generation()

    def _next_generation(self) -> None:
        """Places keep their order; whoever failed has saved nothing to rely on, and starts from another."""
        self._generation += 1
        rng = self._rng_of_generation()
        results = [place for place, member in enumerate(self._members) if member.loss is not None]
        if not results:  # nobody to learn from
            self._members = [_Member(self.space.sample(rng), member.load_folder, member.parent)
                             for member in self._members]
            return
        places = list(range(len(self._members)))
        places.sort(key=lambda place: self._members[place].rank)
        few = max(1, math.ceil(len(places) * self._args.fraction))
        models = [place for place in places[:few] if place in results]
        worst = {place for place in places[-few:] if place not in models}
        worst |= {place for place in places if place not in results}
        following = []
        for place, member in enumerate(self._members):
            if place in worst:
                model = models[int(rng.integers(len(models)))]
                changed = self._allowed_change(self._members[model].configuration, rng)
                following.append(_Member(changed, self._path(self._generation, model), self._members[model].number))
            else:
                following.append(_Member(member.configuration, self._path(self._generation, place), member.number))
        self._members = following

    def _allowed_change(self, configuration: Parameters, rng: np.random.Generator) -> Parameters:
        """A change that the constraints allow; where none of several is, the nearest to the first that is, or none."""
        changes = [self._changed(configuration, rng) for _ in range(_LOOKS if self.space.constraints else 1)]
        for changed in changes:
            if self.space.allows(changed):
                return changed
        return nearest_allowed(self.space, changes[0], [configuration]) or configuration

    def _changed(self, configuration: Parameters, rng: np.random.Generator) -> Parameters:
        """Explore: the model's parameters with small changes."""
        known = self.space.coordinates(configuration)

        def pick(path: Path, parameter: Parameter) -> float | int:
            size: int = getattr(parameter, "size", 0)
            if path not in known or rng.random() < self._args.resample_probability:
                return int(rng.integers(size)) if size else float(rng.random())
            if isinstance(parameter, Numeric):
                value = parameter.value_at(known[path])
                factor = 1 + self._args.factor if rng.random() < 0.5 else 1 - self._args.factor
                return parameter.quantile_of(value * factor)
            step = 1 if rng.random() < 0.5 else -1
            if isinstance(parameter, RandInt):
                step *= max(1, round(self._args.factor * size / 4))
            if isinstance(parameter, NestedChoice):
                step = 0  # another option would have parameters of its own, of which nothing is known
            return min(max(int(known[path]) + step, 0), size - 1)

        return self.space.build(pick)

    def _path(self, generation: int, place: int) -> str:
        return posixpath.join(self._folder, str(generation), str(place))

    def _rng_of_generation(self) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence([self.seed, 1, self._generation]))


def build(space: SearchSpace, seed: int, optimize_mode: str, args: PbtArgs) -> PopulationTraining:
    return PopulationTraining(space, seed, optimize_mode, args, args.all_checkpoint_dir or CARRIED)
