"""The text of a config file as plain values, with the place of each of them.

YAML is read as ``trainingservice.limited_yaml`` says, and JSON as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from trainingservice.limited_json import json_fault_words
from trainingservice.limited_yaml import (
    DEEPEST_NESTING,
    LONGEST_TEXT,
    MOST_NODES,
    Path,
    YamlReading,
    YamlRefused,
    key_problem,
    path_text,
    scalar_problem,
)

__all__ = ["LONGEST_TEXT", "MOST_VALUES", "Path", "Place", "SourceDocument", "path_text", "read_mapping", "read_text"]

#: What is read, unless it is said, for sentences.
CONFIG = "the config"
#: Of values that are parsed already, and of JSON, whose reader is faster.
MOST_VALUES = 100_000
#: Keys given twice that are told.
_MOST_DOUBLES = 20


@dataclass(frozen=True)
class Place:
    """Where a value and its key stand: line and column from 1, ``start`` and ``end`` as offsets into the text."""

    line: int
    column: int
    key_line: int
    key_column: int
    start: int
    end: int


@dataclass(frozen=True)
class SourceDocument:
    """A document and the place of each of its values; no places where it did not come from a YAML-like text."""

    data: dict[str, Any]
    places: dict[Path, Place] = field(default_factory=dict)


def read_text(text: str, what: str = CONFIG) -> SourceDocument:
    """Read YAML or JSON text that holds a mapping. ``what`` it is, for sentences. Raises ConfigInvalid."""
    text = text.removeprefix("\ufeff")
    if len(text) > LONGEST_TEXT:
        raise _invalid(f"the file has {len(text)} characters; at most {LONGEST_TEXT} are read")
    if text.lstrip().startswith("{"):
        try:
            return _read_json(text, what)
        except (ValueError, RecursionError) as error:
            try:
                return _Reader(text, what).read()  # YAML's flow style also begins with a brace
            except ConfigInvalid:
                if isinstance(error, json.JSONDecodeError) and text.lstrip("{ \t\r\n").startswith('"'):
                    raise ConfigInvalid([ConfigError("", f"is not valid JSON here: {json_fault_words(error)}",
                                                     error.lineno, error.colno)]) from error
                raise
    return _Reader(text, what).read()


def read_mapping(mapping: Mapping[str, Any], what: str = CONFIG) -> SourceDocument:
    """Take values that are already parsed, with the same limits. Raises ConfigInvalid."""
    return SourceDocument(_Plain(what).mapping_of(mapping))


def _read_json(text: str, what: str) -> SourceDocument:
    data = json.loads(text, object_pairs_hook=_without_doubles)
    places: Mapping[Path, Place] = {}
    if text.count(",") < MOST_NODES:  # else it is too much for that reader
        with suppress(ConfigInvalid):  # tabs, for one, are fine in JSON and not in YAML
            places = _Reader(text, what).read().places
    return SourceDocument(_Plain(what, places).mapping_of(data), dict(places))


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"{key} twice")  # the YAML reader then says where
        result[key] = value
    return result


def _no_mapping(what: str) -> str:
    if what == CONFIG:
        return "the config must be a mapping of field names to values, such as trialCommand: ..."
    return f"{what} must be a mapping of names to values"


def _invalid(message: str) -> ConfigInvalid:
    return ConfigInvalid([ConfigError("", message)])


class _Plain:
    """Copies values while checking that every one of them can be stored as JSON."""

    def __init__(self, what: str, places: Mapping[Path, Place] | None = None) -> None:
        self._what = what
        self._places = places or {}
        self._count = 0

    def mapping_of(self, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _invalid(_no_mapping(self._what))
        copy: dict[str, Any] = self._copy(value, ())
        return copy

    def _copy(self, value: Any, path: Path) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _invalid(f"{self._what} holds more than {MOST_VALUES} values")
        if len(path) > DEEPEST_NESTING:
            raise self._at(path, f"is nested more than {DEEPEST_NESTING} levels deep")
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str) or (problem := key_problem(key)):
                    raise self._at(path, "has a key that is not text" if not isinstance(key, str) else problem)
            return {key: self._copy(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._copy(item, (*path, index)) for index, item in enumerate(value)]
        if problem := scalar_problem(value):
            raise self._at(path, problem)
        return value

    def _at(self, path: Path, message: str) -> ConfigInvalid:
        place = self._places.get(path)
        line, column = (place.line, place.column) if place is not None else (None, None)
        return ConfigInvalid([ConfigError(path_text(path), message, line, column)])


class _Reader(YamlReading):
    """Values and places in one walk over the text's nodes."""

    def __init__(self, text: str, what: str) -> None:
        super().__init__(text)
        self._what = what
        self._places: dict[Path, Place] = {}
        self._doubles: list[ConfigError] = []

    def read(self) -> SourceDocument:
        """Raises ConfigInvalid."""
        try:
            node = self.root()
            if node is None:
                raise _invalid(f"{self._what} is empty")
            if not isinstance(node, yaml.MappingNode):
                raise YamlRefused(_no_mapping(self._what), mark=node.start_mark)
            data = self.values(node)
        except YamlRefused as refused:
            raise ConfigInvalid([ConfigError(path_text(refused.path), refused.message, refused.line, refused.column)]
                                ) from refused
        if self._doubles:
            raise ConfigInvalid(self._doubles)
        return SourceDocument(data, self._places)

    def given_twice(self, key: yaml.Node, path: Path) -> None:
        if len(self._doubles) < _MOST_DOUBLES:
            self._doubles.append(ConfigError(
                path_text(path), f"is given twice, the first time in line {self._places[path].key_line}",
                key.start_mark.line + 1, key.start_mark.column + 1))

    def note(self, key: yaml.Node, value: yaml.Node, path: Path) -> None:
        if path in self._places:  # what << brings never moves what was written here
            return
        self._places[path] = Place(
            line=value.start_mark.line + 1, column=value.start_mark.column + 1,
            key_line=key.start_mark.line + 1, key_column=key.start_mark.column + 1,
            start=value.start_mark.index, end=value.end_mark.index)
