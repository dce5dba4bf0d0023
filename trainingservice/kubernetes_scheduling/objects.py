"""How labels, annotations, tolerations and names of an experiment and of its cluster come into a trial's objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from trainingservice.kubernetes_scheduling.fields import (
    QUEUE_LABEL,
    OfAllTrials,
    SchedulingOptions,
    Toleration,
)
from trainingservice.words.shown_value import shown

Object = dict[str, Any]
Options = TypeVar("Options", bound=SchedulingOptions)
_MAPS = {"labels": "labels", "annotations": "annotations", "node_selector": "nodeSelector"}


def with_those_of_all(options: Options, of_all: OfAllTrials | None) -> Options:
    """The options of an experiment with what all trials of its cluster have; of one key, the cluster's value."""
    if of_all is None:
        return options
    maps = {name: {**getattr(options, name), **getattr(of_all, name)} for name in _MAPS}
    further = [toleration for toleration in options.tolerations if toleration not in of_all.tolerations]
    return options.model_copy(update={**maps, "tolerations": (*of_all.tolerations, *further)})


def conflicts(options: SchedulingOptions, of_all: OfAllTrials | None) -> list[tuple[str, str]]:
    """Fields, and sentences, where an experiment gives another value to a key which the cluster gives to all trials."""
    found = []
    for name, field in _MAPS.items():
        fixed: Mapping[str, str] = getattr(of_all, name) if of_all is not None else {}
        for key, value in getattr(options, name).items():
            if fixed.get(key, value) != value:
                found.append((field, f"The cluster gives {shown(key)} the value {shown(fixed[key])} for all trials "
                                     f"(forAllTrials.{field}). Leave {shown(key)} out."))
    return found


def pod_fields(options: SchedulingOptions, own_secret: str = "") -> Object:
    """Fields of a pod's spec. ``own_secret``: name of the Secret that was made of the role's login, "" for none."""
    secrets = [*([own_secret] if own_secret else []), *(secret.name for secret in options.image_pull_secrets)]
    fields: Object = {
        "serviceAccountName": options.service_account_name, "nodeSelector": dict(options.node_selector),
        "tolerations": [_toleration(toleration) for toleration in options.tolerations],
        "priorityClassName": options.priority_class_name,
        "imagePullSecrets": [{"name": name} for name in dict.fromkeys(secrets)]}
    return {name: value for name, value in fields.items() if value}


def _toleration(toleration: Toleration) -> Object:
    written: Object = toleration.model_dump(by_alias=True, exclude_none=True)
    return written


def pod_metadata(options: SchedulingOptions, own_labels: Mapping[str, str]) -> Object:
    """Metadata of a pod. ``own_labels``: those by which the server finds it, which nothing replaces."""
    return {"labels": {**options.labels, **own_labels},
            **({"annotations": dict(options.annotations)} if options.annotations else {})}


def queue_labels(queue: str | None) -> dict[str, str]:
    """The label by which Kueue knows what waits in which queue; {} for what waits in none."""
    return {QUEUE_LABEL: queue} if queue else {}


def queue_of(item: Object) -> str:
    """Name of the queue of Kueue in which an object waits; "" for none."""
    return str(((item.get("metadata") or {}).get("labels") or {}).get(QUEUE_LABEL) or "")
