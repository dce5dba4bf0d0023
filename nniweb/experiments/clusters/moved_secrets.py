"""Stored secrets that changed settings would send elsewhere than to where they were given for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nniweb.experiments.config.fields.walk import fold, leaf_types
from trainingservice.cluster_settings import ClusterSettings, SettingsModel, without_secrets


def moved_secrets(paths: Iterable[str], before: ClusterSettings, after: ClusterSettings) -> dict[str, list[str]]:
    """Of these secrets (paths, outside of lists): the changed fields that part each from where it was given for.

    The fields are paths, too. Which may change is what the models say: ``SettingsModel.keeps_secrets``.
    """
    old, new = without_secrets(before), without_secrets(after)
    return {path: changed for path in paths if (changed := list(_changed(path.split("."), type(after), old, new, "")))}


def _changed(steps: list[str], model: type[SettingsModel], old: dict[str, Any], new: dict[str, Any], place: str
             ) -> Iterator[str]:
    """``place``: of the model in the settings."""
    group = next((name for name, field in model.model_fields.items()
                  if fold(field.alias or name) == fold(steps[0])), "")
    free = {name for each in model.__mro__ if issubclass(each, SettingsModel) for name in each.keeps_secrets}
    for name, field in model.model_fields.items():
        shown = field.alias or name
        if name != group and name not in free and old.get(shown) != new.get(shown):
            yield place + shown
    if len(steps) == 1 or not group:
        return
    inner = next((leaf for leaf in leaf_types(model.model_fields[group].annotation)
                  if isinstance(leaf, type) and issubclass(leaf, SettingsModel)), None)
    if inner is not None:
        shown = model.model_fields[group].alias or group
        yield from _changed(steps[1:], inner, old.get(shown) or {}, new.get(shown) or {}, f"{place}{shown}.")
