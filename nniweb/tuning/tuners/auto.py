"""A tuner that chooses among the others, by a rule that comes from measurements (``auto_rule``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from nniweb.tuning.class_args import AutoArgs, GpArgs, HyperoptArgs, Nsga2Args, TpeArgs
from nniweb.tuning.packages import not_installed
from nniweb.tuning.search_space.coordinate_table import CoordinateTable
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.learning_tuner import LearningTuner
from nniweb.tuning.tuner_base.several_objectives import ObjectivesTuner
from nniweb.tuning.tuner_base.tuner import Tuner
from nniweb.tuning.tuners import anneal, nsga2, tpe
from nniweb.tuning.tuners.auto_rule import Choice, Rule

#: What GP needs.
_NEEDS = ("sklearn",)

Member = LearningTuner | ObjectivesTuner


class Auto(Tuner):
    """All tuners that it may choose are told everything, so that each knows all results when its turn comes. The
    proposal of a number is that of the tuner that is chosen for it, so it is the same after a restart.
    """

    def __init__(self, space: SearchSpace, seed: int, rule: Rule, members: Mapping[str, Member]) -> None:
        super().__init__(space, seed)
        self._rule = rule
        self._members = dict(members)
        self._one = next(iter(self._members.values()))
        self._chosen: Choice | None = None

    def propose(self, number: int) -> Parameters:
        return self._choose().propose(number)

    def is_gaussian_process(self) -> bool:
        return self._choose().is_gaussian_process()

    def _choose(self) -> Member:
        self._chosen = self._rule.choice(self._one.told, self._one.running_count)
        return self._members[self._chosen.tuner]

    def chosen(self) -> dict[str, Any] | None:
        if self._chosen is None:  # earlier results have led so far
            self._choose()
        return None if self._chosen is None else self._chosen.document()

    def note_asked(self, number: int, parameters: Parameters) -> None:
        for member in self._members.values():
            member.note_asked(number, parameters)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        self.tell_event({"number": number, "parameters": parameters, "value": value, "status": status,
                         "violation": violation})

    def tell_event(self, event: Mapping[str, Any]) -> None:
        for member in self._members.values():
            member.tell_event(event)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        for member in self._members.values():
            member.update_search_space(space)

    def allow_repeats(self) -> None:
        for member in self._members.values():
            member.allow_repeats()


def build(space: SearchSpace, seed: int, optimize_mode: str, _args: AutoArgs) -> Auto:
    rule = Rule(objectives=1, columns=CoordinateTable(space).feature_count, missing=tuple(not_installed(_NEEDS)))
    return Auto(space, seed, rule, {name: _member(name, space, seed, optimize_mode) for name in rule.tuners})


def _member(name: str, space: SearchSpace, seed: int, optimize_mode: str) -> Member:
    if name == "TPE":
        return tpe.build(space, seed, optimize_mode, TpeArgs())
    if name == "Anneal":
        return anneal.build(space, seed, optimize_mode, HyperoptArgs())
    # not at the top: what it needs is not always installed
    from nniweb.tuning.tuners import gaussian_process

    return gaussian_process.build(space, seed, optimize_mode, GpArgs())


def build_for_objectives(space: SearchSpace, seed: int, modes: Sequence[str], _args: AutoArgs) -> Auto:
    rule = Rule(objectives=len(modes), columns=CoordinateTable(space).feature_count)
    return Auto(space, seed, rule, {"TPE": tpe.build_for_objectives(space, seed, modes, TpeArgs()),
                                    "NSGAII": nsga2.build_for_objectives(space, seed, modes, Nsga2Args())})
