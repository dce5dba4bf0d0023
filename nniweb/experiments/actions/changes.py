"""What was changed of an experiment after its launch: written down, put into words, taken back."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nniweb.experiments.access.request_actor import asking
from nniweb.experiments.launch.listed_clusters import clusters_now
from nniweb.experiments.models import Experiment, ExperimentChange, User
from nniweb.experiments.retention import policy
from nniweb.tuning import algorithms
from nniweb.tuning.search_space.problem import InvalidInput, Problem
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.search_space.uninterpreted_space import read_space
from trainingservice.words.durations import format_duration

#: Field of a change -> its spelling in experiment files.
CHANGEABLE = {
    "trial_concurrency": "trialConcurrency",
    "clusters": "clusters",
    "priority": "priority",
    "max_trial_number": "maxTrialNumber",
    "max_duration": "maxExperimentDuration",
    "max_trial_duration": "maxTrialDuration",
    "search_space": "searchSpace",
    "tuner": "tuner",
    "retention": "retention",
    "name": "experimentName",
    "description": "description",
    "tags": "tags",
}
_DURATIONS = ("max_duration", "max_trial_duration")
#: Longer values are cut where a table shows them.
_SHOWN = 200


@dataclass(frozen=True)
class ChangedValue:
    """One line about a change: what, from, to, in words."""

    what: str
    before: str
    after: str


def write_down(experiment: Experiment, different: Mapping[str, Any], at: datetime, actor: User | None,
               undoes: int | None = None) -> ExperimentChange:
    """Note that these fields get these values; ``experiment`` still has those from before.

    Inside a transaction that holds the experiment's row.
    """
    now = asking()
    last = ExperimentChange.objects.filter(experiment=experiment).order_by("-number").values_list("number", flat=True)
    return ExperimentChange.objects.create(
        experiment=experiment, number=(last.first() or 0) + 1, at=at, undoes=undoes,
        actor=actor or (now.person if now is not None else None), via=now.via[:150] if now is not None else "",
        fields={field: {"before": value_now(experiment, field), "after": value} for field, value in different.items()})


def value_now(experiment: Experiment, field: str) -> Any:
    """Of one of CHANGEABLE."""
    return clusters_now(experiment) if field == "clusters" else getattr(experiment, field)


def values_before(change: ExperimentChange) -> dict[str, Any]:
    """What the change replaced."""
    return {field: values["before"] for field, values in change.fields.items()}


def changed_since(experiment: Experiment, change: ExperimentChange) -> list[str]:
    """Fields of the change that are not any more what it made of them, as files spell them."""
    return [CHANGEABLE[field] for field in CHANGEABLE
            if field in change.fields and value_now(experiment, field) != change.fields[field]["after"]]


def in_words(change: ExperimentChange) -> list[ChangedValue]:
    """What it changed; of a search space or a tuner the parts that differ."""
    return [line for field in CHANGEABLE if (values := change.fields.get(field)) is not None
            for line in _lines(field, values["before"], values["after"])]


def check_new_tuner(experiment: Experiment, tuner: Mapping[str, Any], space: SearchSpace) -> None:
    """Whether this tuner can go on from what the present one was told. Raises InvalidInput (paths ``name``, ...)."""
    if experiment.has_own_tuner or not tuner.get("name"):
        raise InvalidInput([Problem("", "a custom tuner (className) cannot be changed or introduced in an existing "
                                        "experiment; clone the experiment instead")])
    old, new = (algorithms.find_tuner(str(one["name"])) for one in (experiment.tuner, tuner))
    args = algorithms.check_class_args(new, tuner.get("class_args"))
    problems = [*algorithms.check_types(new, space), *algorithms.check_objectives(new, len(experiment.objectives))]
    if experiment.multi_phase:
        problems += algorithms.check_multi_phase(new)
    if experiment.has_replicates:
        problems += algorithms.check_replicates(new)
    for one in (old, new):
        if not one.takes_results:
            problems.append(Problem("name", f"{one.name} compares only trials that it proposed, so it can neither "
                                            "replace a tuner nor be replaced in an existing experiment"))
    if args.optimize_mode not in (None, experiment.optimize_mode):
        problems.append(Problem("classArgs.optimize_mode", f"must be {experiment.optimize_mode}, as in the experiment; "
                                                           "it cannot be changed"))
    if problems:
        raise InvalidInput(problems)


def tuners_that_can_go_on(experiment: Experiment) -> list[algorithms.Algorithm]:
    """Those that could take its present tuner's place, that one among them; none where it cannot be exchanged."""
    try:
        space = read_space(experiment.search_space, is_uninterpreted=experiment.has_own_tuner)
    except InvalidInput:
        return []
    return [one for one in algorithms.TUNERS if _can_go_on(experiment, one, space)]


def _can_go_on(experiment: Experiment, algorithm: algorithms.Algorithm, space: SearchSpace) -> bool:
    try:
        check_new_tuner(experiment, {"name": algorithm.name}, space)
    except InvalidInput:
        return False
    return True


def _lines(field: str, before: Any, after: Any) -> Iterator[ChangedValue]:
    name = CHANGEABLE[field]
    if field == "search_space" and isinstance(before, dict) and isinstance(after, dict):
        yield from _parts(name, before, after)
    elif field == "tuner":
        yield from _parts(name, {"name": before.get("name"), **(before.get("class_args") or {})},
                          {"name": after.get("name"), **(after.get("class_args") or {})})
    elif field == "clusters":
        by_name = [{entry["name"]: entry for entry in entries} for entries in (before, after)]
        for cluster in dict.fromkeys([*by_name[0], *by_name[1]]):
            yield from _parts(f"{name}.{cluster}", by_name[0].get(cluster, {}), by_name[1].get(cluster, {}))
    elif field == "retention":
        words = policy.in_words
        for kind in policy.KINDS:
            if before.get(kind) != after.get(kind):
                yield ChangedValue(f"{name}.{kind}", words(before.get(kind)), words(after.get(kind)))
    else:
        yield ChangedValue(name, _word(field, before), _word(field, after))


def _parts(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ChangedValue]:
    for part in dict.fromkeys([*before, *after]):
        if before.get(part) != after.get(part) or (part in before) != (part in after):
            yield ChangedValue(f"{name}.{part}", _word(part, before.get(part)), _word(part, after.get(part)))


def _word(field: str, value: Any) -> str:
    if value in (None, "", []):
        return "none"
    if field == "tags":
        return ", ".join(value)
    if field in _DURATIONS:
        return format_duration(round(value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN - 1]}…"
