"""Edits of the list of clusters of an experiment by the options of ``experiments clusters``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Options of ``experiments clusters`` that change the list.
EDITS = ("add", "drain", "fill", "remove", "weight", "up_to", "cost", "after")


class CannotEdit(ValueError):
    """The list has no such cluster, or has it already."""


def edited_clusters(entries: Sequence[dict[str, Any]], home: str, edits: dict[str, Any]) -> list[dict[str, Any]]:
    """The list after the edits (EDITS; None and [] change nothing). ``home`` is the cluster of an experiment without a
    list. Raises CannotEdit.
    """
    found = {entry["name"]: dict(entry) for entry in (entries or [{"name": home}])}
    for name in edits.get("add") or ():
        if name in found:
            raise CannotEdit(f"The experiment runs on {name} already.")
        found[name] = {"name": name}
    for name in edits.get("remove") or ():
        _entry(found, name)
        del found[name]
    for name in edits.get("drain") or ():
        _entry(found, name)["drained"] = True
    for name in edits.get("fill") or ():
        _entry(found, name)["drained"] = False
    for field, key in (("weight", "weight"), ("up_to", "upTo"), ("cost", "cost")):
        for name, value in edits.get(field) or ():
            _entry(found, name)[key] = value
    for name, value in edits.get("after") or ():
        _entry(found, name)["after"] = [one for one in str(value).split(",") if one]
    return list(found.values())


def _entry(found: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if name not in found:
        raise CannotEdit(f"The experiment has no cluster {name}. It has {', '.join(found)}. Add one with --add.")
    return found[name]
