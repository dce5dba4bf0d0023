"""The config of an experiment as it is now: the resolved one, with what was changed since the launch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nniweb.experiments.launch.listed_clusters import clusters_now
from nniweb.experiments.models import Experiment, ExperimentChange
from trainingservice.words.durations import format_duration

#: Columns whose value stands in the config, all but the tuner's.
COLUMNS = ("name", "description", "tags", "search_space", "trial_concurrency", "priority", "max_trial_number",
           "max_duration", "max_trial_duration", "retention")


def current_config(experiment: Experiment) -> dict[str, Any]:
    """In NNI's v2 form. What was not changed stays as it was spelled. One query."""
    return with_present_values(experiment, changed_fields(experiment))


def changed_fields(experiment: Experiment) -> set[str]:
    """Columns that were changed since the launch."""
    changes = ExperimentChange.objects.filter(experiment=experiment).values_list("fields", flat=True)
    return {field for fields in changes for field in fields}


def with_present_values(experiment: Experiment, fields: Collection[str]) -> dict[str, Any]:
    """The resolved config with the present values of these columns (COLUMNS, ``tuner``; others have no effect)."""
    document = dict(experiment.config)
    for field in (*COLUMNS, "tuner", "clusters"):
        if field not in fields:
            continue
        if field == "clusters":
            _put_clusters(document, experiment)
            continue
        key, value = _as_in_files(experiment, field)
        if value is None:
            document.pop(key, None)
        elif key != "experimentName" or "experimentName" in document or value != "experiment":
            document[key] = value
    return document


def _put_clusters(document: dict[str, Any], experiment: Experiment) -> None:
    """The present list, in place of what the file said about where to run."""
    if entries := clusters_now(experiment):
        for key in ("cluster", "trialOptions", "trainingService"):
            document.pop(key, None)
        document["clusters"] = entries
    elif "clusters" in document:
        del document["clusters"]
        document["cluster"] = experiment.cluster.name
        if experiment.trial_options:
            document["trialOptions"] = dict(experiment.trial_options)


def _as_in_files(experiment: Experiment, field: str) -> tuple[str, Any]:
    match field:
        case "name":
            return "experimentName", experiment.name
        case "description":
            return "description", experiment.description or None
        case "tags":
            return "tags", list(experiment.tags) or None
        case "search_space":
            return "searchSpace", experiment.search_space
        case "trial_concurrency":
            return "trialConcurrency", experiment.trial_concurrency
        case "priority":
            return "priority", experiment.priority or None
        case "max_trial_number":
            return "maxTrialNumber", experiment.max_trial_number
        case "max_duration":
            return "maxExperimentDuration", _duration(experiment.max_duration)
        case "max_trial_duration":
            return "maxTrialDuration", _duration(experiment.max_trial_duration)
        case "retention":
            return "retention", experiment.retention or None
    return "tuner", _tuner(experiment)


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration(round(seconds))


def _tuner(experiment: Experiment) -> dict[str, Any]:
    """A built-in one; others cannot be changed."""
    args, hears = experiment.tuner.get("class_args"), experiment.tuner.get("include_intermediate_results")
    return {"name": experiment.tuner["name"], **({"classArgs": args} if args else {}),
            **({"includeIntermediateResults": True} if hears else {})}
