"""Results of earlier experiments, taken at the launch of a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.config.settings import ExperimentSettings
from nniweb.experiments.earlier.source_results import SourceResults, results_for
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import EarlierExperiment, Experiment, ExperimentEvent, User
from nniweb.experiments.results.other_metrics import main_metric
from nniweb.tuning.guidance import mapped_parameters
from nniweb.tuning.search_space.uninterpreted_space import read_space
from trainingservice.words.shown_value import shown

#: What keeps results of a parameter from being used, or the parameter from being compared.
_MISFITS = {
    mapped_parameters.MISSING: "the earlier experiment does not have it ({count} results), so its results say nothing "
                               "of it",
    mapped_parameters.UNKNOWN: "is not in this search space ({count} results), so it is left out of them",
    mapped_parameters.OUTSIDE: "{count} results are outside this range and are not used",
    mapped_parameters.OTHER_TYPE: "{count} results have a value of another type and are not used",
    mapped_parameters.NO_OPTION: "{count} results have an option that is not in this search space and are not used"}
_MOST_NAMED = 10


@dataclass(frozen=True)
class Taken:
    """What a launch takes from one earlier experiment."""

    source_id: str
    name: str
    found: SourceResults

    def notes(self) -> list[str]:
        """Sentences: how many results are taken, and what of them does not fit."""
        of = f"startFrom: experiment {self.source_id} ({self.name})"
        said = [f"{of}: {len(self.found.results)} of its {self.found.available} results are taken."]
        lines = [f"{of}: {path}: {_MISFITS[code].format(count=count)}."
                 for path, codes in self.found.misfits.items() for code, count in codes.items()]
        if len(lines) > _MOST_NAMED:
            lines = [*lines[:_MOST_NAMED], f"{of}: {len(lines) - _MOST_NAMED} further parameters do not fit."]
        return [*said, *lines]


def take_results(settings: ExperimentSettings, owner: User) -> list[Taken]:
    """The results that an experiment with these settings starts from, in the order of the config; reads only.

    Raises Refused with everything that keeps one of them from being used: an experiment that the owner may not see is
    refused like one that is not there.
    """
    if not settings.start_from:
        return []
    space = read_space(settings.search_space, is_uninterpreted=False, constraints=settings.constraints)
    seen = {one.public_id: one for one in visible_experiments(owner).filter(public_id__in=settings.start_from)}
    taken: list[Taken] = []
    wrong: list[tuple[str, str]] = []
    for place, public_id in enumerate(settings.start_from):
        source = seen.get(public_id)
        if source is None:
            wrong.append((f"startFrom.{place}", f"There is no experiment {shown(public_id)} that you may see. Give "
                                                "the id "
                                                "of one, as its page shows it."))
        elif problem := _other_objectives(settings, source):
            wrong.append((f"startFrom.{place}", problem))
        else:
            one = Taken(public_id, source.name, results_for(source, space, settings.objectives))
            if one.found.results:
                taken.append(one)
            else:
                wrong.append((f"startFrom.{place}", _nothing(one)))
    if wrong:
        raise Refused.for_fields(wrong)
    return taken


def keep(experiment: Experiment, taken: Sequence[Taken], actor: User | None) -> None:
    """Store what was taken with the new experiment, in the transaction that creates it."""
    EarlierExperiment.objects.bulk_create(
        EarlierExperiment(experiment=experiment, place=place, source_id=one.source_id, available=one.found.available,
                          taken=len(one.found.results), misfits=one.found.misfits,
                          results=[[parameters, value] for parameters, value in one.found.results])
        for place, one in enumerate(taken))
    if taken:
        ExperimentEvent.objects.create(experiment=experiment, at=experiment.created_at, kind="started from",
                                       actor=actor, message=" ".join(note for one in taken for note in one.notes()))


def earlier_of(experiment: Experiment) -> list[list[Any]]:
    """What its tuner is given: of each earlier experiment its results as [parameters, value]. A value is a float, or a
    list of them where there are several objectives.
    """
    stored = EarlierExperiment.objects.filter(experiment=experiment).values_list("results", flat=True)
    return [[[parameters, _floats(value)] for parameters, value in results] for results in stored]


def _floats(value: Any) -> Any:
    """PostgreSQL gives 1e300 back as an integer of 301 digits, which no array of NumPy takes as a number."""
    return [float(one) for one in value] if isinstance(value, list) else float(value)


def note_agreements(experiment: Experiment, agreements: Sequence[Mapping[str, Any]]) -> None:
    """Store how they agree now, ``{"compared", "correlation", "weight"}`` by place, in the caller's transaction."""
    for place, one in enumerate(agreements):
        EarlierExperiment.objects.filter(experiment=experiment, place=place).exclude(compared=one["compared"]).update(
            compared=one["compared"], correlation=one["correlation"], weight=one["weight"])


def _other_objectives(settings: ExperimentSettings, source: Experiment) -> str:
    """Why results of the one do not count for the other, "" where they do."""
    here = _objectives(settings.objectives, settings.optimize_mode)
    there = _objectives(source.objectives, source.optimize_mode)
    if set(here) <= set(there):
        return ""
    return (f"The experiment {source.public_id} has the objective to {' and to '.join(there)}, and this one to "
            f"{' and to '.join(here)}. Its results cannot be compared; name an experiment with "
            f"{'these objectives' if len(here) > 1 else 'the same objective'}.")


def _objectives(objectives: Sequence[Mapping[str, Any]], mode: str) -> list[str]:
    """As ``minimize loss``, the main one first."""
    return [f"{one['optimize_mode']} {one['metric']}" for one in objectives] or [f"{mode} {main_metric(())}"]


def _nothing(one: Taken) -> str:
    if not one.found.available:
        return f"The experiment {one.source_id} has no results yet. Name another one."
    reasons = "; ".join(f"{path}: {_MISFITS[code].format(count=count)}" for path, codes in one.found.misfits.items()
                        for code, count in codes.items())
    return (f"None of the {one.found.available} results of the experiment {one.source_id} fits this search space "
            f"({reasons:.500}). Name another one, or change the search space.")
