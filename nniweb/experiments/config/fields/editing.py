"""Single fields of a config's text, read and written: what stands behind a form beside the text.

Writing touches as little as can be: a plain value where it stands, else the top-level entry it belongs to, and only
where the text is written in a way that cannot be edited so (JSON, anchors, merges) the whole. The outcome is read again
and compared before it is given out, so it always says what was asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.config.v1_conversion import is_v1
from nniweb.experiments.config.yaml_positions import Path, SourceDocument, read_text
from trainingservice.limited_yaml import yaml_text
from trainingservice.words.spellings import fold

#: Fields that a form may hold, as paths of the v2 form.
EDITABLE: tuple[str, ...] = (
    "experimentName", "description", "trialCommand", "trialConcurrency", "trialGpuNumber", "gpuMemory",
    "maxTrialNumber", "budget.gpuHours", "budget.trials", "budget.money", "maxExperimentDuration",
    "maxTrialDuration", "tuner.name", "tuner.classArgs", "assessor.name", "assessor.classArgs",
    "constraints", "outcomeConstraints", "startPoints", "startFrom", "replicates", "cluster", "clusters",
    "searchSpace", "searchSpaceFile", "useAnnotation", "trainingService", "trialOptions")
_WIDTH = 100


def read_fields(text: str) -> dict[str, Any]:
    """The fields of EDITABLE that the text has, by these names. Raises ConfigInvalid where it cannot be read, or has
    NNI's v1 form.
    """
    if not text.strip():
        return {}
    document = _read(text)
    found = {}
    for name in EDITABLE:
        path = _spelt(document.data, tuple(name.split(".")))
        if path is not None and (value := _value_at(document.data, path)) is not None:
            found[name] = value
    return found


def write_fields(text: str, changes: Mapping[str, Any]) -> str:
    """The text with these fields (names of EDITABLE) changed; None takes one out. Raises ConfigInvalid.

    Numbers that a form gives back as JavaScript has them, such as 1 for 1.0, stay as they are written.
    """
    for name, value in changes.items():
        text = _with(text, tuple(name.split(".")), value)
    return text


def document_text(document: Mapping[str, Any]) -> str:
    """A whole document as YAML, in its own order."""
    return "".join(_entry(key, value) for key, value in document.items())


def _read(text: str) -> SourceDocument:
    if not text.strip():
        return SourceDocument({})
    document = read_text(text)
    if is_v1(document.data):
        raise ConfigInvalid([ConfigError("", "has NNI's v1 form; convert it to the v2 form to edit its fields here")])
    return document


def _with(text: str, path: Path, value: Any) -> str:
    document = _read(text)
    spelt = _spelt(document.data, path)
    if spelt is not None:
        value = _as_written(_value_at(document.data, spelt), value)
    goal = _changed(document.data, spelt or _new_path(document.data, path), value)
    if json.dumps(goal, sort_keys=True) == json.dumps(document.data, sort_keys=True):  # 1, 1.0 and True are equal
        return text
    if not goal:
        return ""
    for attempt in _attempts(text, document, goal, spelt, path, value):
        try:
            if read_text(attempt).data == goal:
                return attempt
        except ConfigInvalid:
            continue
    return json.dumps(goal, indent=2, ensure_ascii=False) + "\n" if text.lstrip().startswith("{") else \
        document_text(goal)


def _attempts(text: str, document: SourceDocument, goal: dict[str, Any], spelt: Path | None, path: Path, value: Any
              ) -> Iterator[str]:
    """The smallest change first."""
    if text.lstrip().startswith("{"):
        return
    if spelt is not None and value is not None and not isinstance(value, dict | list):
        place = document.places.get(spelt)
        old = _value_at(document.data, spelt)
        if place is not None and not isinstance(old, dict | list) and "\n" not in text[place.start:place.end]:
            yield f"{text[:place.start]}{_flow(value)}{text[place.end:]}"
    top = str((spelt or _new_path(document.data, path))[0])
    entry = _entry(top, goal[top]) if top in goal else ""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if top in document.data:
        first, last = _lines_of(lines, document, top)
        yield "".join([*lines[:first], entry, *lines[last:]])
    else:
        yield "".join(lines) + entry


def _lines_of(lines: list[str], document: SourceDocument, top: str) -> tuple[int, int]:
    """The lines of a top-level entry: from its key to before the comments and empty lines in front of the next."""
    starts = sorted(place.key_line - 1 for path, place in document.places.items() if len(path) == 1)
    first = document.places[(top,)].key_line - 1
    last = next((start for start in starts if start > first), len(lines))
    while last > first + 1 and (not lines[last - 1].strip() or lines[last - 1].startswith("#")):
        last -= 1
    return first, last


def _entry(key: str, value: Any) -> str:
    """One entry in block style; what lies deeper than its second level on one line, as people write it."""
    if isinstance(value, Mapping) and value:
        inner = "".join(f"  {_flow(name)}: {_inner(item)}\n" for name, item in value.items())
        return f"{_flow(key)}:\n{inner}"
    line = f"{_flow(key)}: {_flow(value)}\n"
    if isinstance(value, list) and len(line) > _WIDTH:
        return f"{_flow(key)}:\n" + "".join(f"  - {_flow(item)}\n" for item in value)
    return line


def _inner(value: Any) -> str:
    text = _flow(value)
    if len(text) <= _WIDTH or not isinstance(value, Mapping | list):
        return text
    dumped = yaml_text(value, width=_WIDTH, default_flow_style=None)
    return "\n" + "".join(f"    {line}\n" for line in dumped.splitlines()).rstrip("\n")


def _flow(value: Any) -> str:
    text = yaml_text(value, default_flow_style=True, width=10**9)
    return text.removesuffix("\n").removesuffix("\n...").removesuffix("\n")


def _spelt(data: Mapping[str, Any], path: Path) -> Path | None:
    """The path as this document spells it; None where it has none such."""
    spelt: list[str | int] = []
    here: Any = data
    for part in path:
        keys = here if isinstance(here, Mapping) else ()
        key = next((key for key in keys if fold(str(key)) == fold(str(part))), None)
        if key is None:
            return None
        spelt.append(key)
        here = here[key]
    return tuple(spelt)


def _new_path(data: Mapping[str, Any], path: Path) -> Path:
    """Where a field that is not there goes: below the spelling of its parent."""
    parent = _spelt(data, path[:1])
    return (*(parent or path[:1]), *path[1:])


def _as_written(old: Any, value: Any) -> Any:
    """``value``, with the numbers of ``old`` that are the same to JavaScript, also where one was moved or renamed."""
    if isinstance(old, dict) and isinstance(value, dict):
        known = {_rounded(one): one for one in old.values()}
        return {name: _as_written(old.get(name, known.get(_rounded(item))), item) for name, item in value.items()}
    if isinstance(old, list) and isinstance(value, list):
        known = {_rounded(one): one for one in old}
        at_places = old if len(old) == len(value) else [known.get(_rounded(item)) for item in value]
        return [_as_written(one if _rounded(one) == _rounded(item) else known.get(_rounded(item), one), item)
                for one, item in zip(at_places, value, strict=True)]
    return old if _rounded(old) == _rounded(value) else value


def _rounded(value: Any) -> str:
    """What a value is to JavaScript, which knows only floats, as JSON."""
    return json.dumps(_in_floats(value))


def _in_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_in_floats(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _value_at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _changed(data: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy with the value at the path; empty groups that a removal leaves go with it."""
    key = str(path[0])
    copy = dict(data)
    if len(path) > 1:
        inner = copy.get(key)
        value = _changed(inner if isinstance(inner, Mapping) else {}, path[1:], value) or None
    if value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy
