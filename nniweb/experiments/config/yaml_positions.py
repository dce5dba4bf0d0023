"""The text of a config file as plain values, with the place of each of them.

YAML is read by PyYAML's safe loader, as NNI does, with three differences: a key given twice is
refused, ``1e-3`` is a number (YAML 1.1 wants ``1.0e-3``), and dates stay text. JSON is read as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid

#: Keys and list indices from the top of the document.
Path = tuple[str | int, ...]

LONGEST_TEXT = 1_000_000
MOST_VALUES = 100_000
DEEPEST_NESTING = 50
LARGEST_NUMBER = 2**1023


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


def path_text(path: Path) -> str:
    """``("machineList", 0, "port")`` as ``machineList[0].port``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_text(text: str) -> SourceDocument:
    """Read YAML or JSON text that holds a mapping. Raises ConfigInvalid."""
    text = text.removeprefix("\ufeff")
    if len(text) > LONGEST_TEXT:
        raise _invalid(f"the file has {len(text)} characters; at most {LONGEST_TEXT} are read")
    if text.lstrip().startswith("{"):
        try:
            return _read_json(text)
        except (ValueError, RecursionError) as error:
            try:
                return _Reader(text).read()  # YAML's flow style also begins with a brace
            except ConfigInvalid:
                if isinstance(error, json.JSONDecodeError) and text.lstrip("{ \t\r\n").startswith('"'):
                    raise ConfigInvalid([ConfigError("", f"is not valid JSON: {error.msg}",
                                                     error.lineno, error.colno)]) from error
                raise
    return _Reader(text).read()


def read_mapping(mapping: Mapping[str, Any]) -> SourceDocument:
    """Take values that are already parsed, with the same limits. Raises ConfigInvalid."""
    return SourceDocument(_Plain().mapping_of(mapping))


def _read_json(text: str) -> SourceDocument:
    data = json.loads(text, object_pairs_hook=_without_doubles)
    try:
        places = _Reader(text).read().places
    except ConfigInvalid:  # tabs, for one, are fine in JSON and not in YAML
        places = {}
    return SourceDocument(_Plain(places).mapping_of(data), places)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"{key} twice")  # the YAML reader then says where
        result[key] = value
    return result


def _invalid(message: str, path: Path = (), mark: yaml.Mark | None = None) -> ConfigInvalid:
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (None, None)
    return ConfigInvalid([ConfigError(path_text(path), message, line, column)])


class _Plain:
    """Copies values while checking that every one of them can be stored as JSON."""

    def __init__(self, places: Mapping[Path, Place] | None = None) -> None:
        self._places = places or {}
        self._count = 0

    def mapping_of(self, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _invalid("the config must be a mapping of field names to values")
        copy: dict[str, Any] = self._copy(value, ())
        return copy

    def _copy(self, value: Any, path: Path) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _invalid(f"the config holds more than {MOST_VALUES} values")
        if len(path) > DEEPEST_NESTING:
            raise self._at(path, f"is nested more than {DEEPEST_NESTING} levels deep")
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str) or (problem := text_problem(key)):
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


def text_problem(text: str) -> str:
    """Why this text cannot be stored, "" where it can."""
    if "\x00" in text:
        return "holds the character NUL, which no database stores"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "holds half of a character (a lone surrogate)"
    return ""


def scalar_problem(value: object) -> str:
    """Why this value cannot be stored as JSON, "" where it can."""
    if isinstance(value, str):
        return text_problem(value)
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        # also false for NaN
        return "" if -LARGEST_NUMBER < value < LARGEST_NUMBER else "must be a finite number"
    return f"is a {type(value).__name__}, which a config cannot hold; put it in quotes to make it text"


class _Loader(yaml.SafeLoader):
    """The safe loader with the numbers of YAML 1.2 and without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789"))

_MERGE = "tag:yaml.org,2002:merge"


class _Reader:
    """One reading of one YAML text: values and places in one walk over the node tree."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[Path, Place] = {}
        self._count = 0
        self._doubles: list[ConfigError] = []

    def read(self) -> SourceDocument:
        try:
            self._loader = _Loader(self._text)
            node = self._loader.get_single_node()
            if node is None or node.tag == "tag:yaml.org,2002:null":
                raise _invalid("the config is empty")
            if not isinstance(node, yaml.MappingNode):
                raise _invalid("the config must be a mapping of field names to values, such as trialCommand: ...",
                               mark=node.start_mark)
            data = self._value(node, ())
        except yaml.reader.ReaderError as error:
            before = self._text[:error.position]
            raise ConfigInvalid([ConfigError("", "holds a character that YAML does not allow",
                                             before.count("\n") + 1, len(before) - before.rfind("\n"))]) from error
        except yaml.MarkedYAMLError as error:
            raise _invalid(_yaml_message(error), mark=error.problem_mark or error.context_mark) from error
        except yaml.YAMLError as error:
            raise _invalid(f"is not valid YAML: {error}") from error
        except RecursionError as error:
            raise _invalid("the config is nested too deeply") from error
        if self._doubles:
            raise ConfigInvalid(self._doubles)
        return SourceDocument(data, self._places)

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._count_one(node)
        if len(path) > DEEPEST_NESTING:
            raise _invalid(f"is nested more than {DEEPEST_NESTING} levels deep", path, node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._note(item, item, (*path, index))
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _count_one(self, node: yaml.Node) -> None:
        """Aliases and merges can make a short text endless."""
        self._count += 1
        if self._count > MOST_VALUES:
            raise _invalid(f"the config holds more than {MOST_VALUES} values", mark=node.start_mark)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            key = self._key(key_node, path)
            if key in result:
                first = self._places[(*path, key)]
                self._doubles.append(ConfigError(
                    path_text((*path, key)), f"is given twice, the first time in line {first.key_line}",
                    key_node.start_mark.line + 1, key_node.start_mark.column + 1))
                continue
            self._note(key_node, value_node, (*path, key))
            result[key] = self._value(value_node, (*path, key))
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                raise _invalid("<< can only take in mappings", path, source.start_mark)
            self._take_in(source, path, result)
        return result

    def _take_in(self, source: yaml.MappingNode, path: Path, result: dict[str, Any]) -> None:
        """Add what ``<<`` brings and ``result`` does not have; its places are those of the anchor."""
        self._count_one(source)
        for key, value in self._mapping(source, path).items():
            result.setdefault(key, value)

    def _key(self, node: yaml.Node, path: Path) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise _invalid("has a key that is not text", path, node.start_mark)
        key = str(node.value)  # as written: `on:` and `1:` are the texts "on" and "1" as in JSON
        if problem := text_problem(key):
            raise _invalid(problem, path, node.start_mark)
        return key

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        try:
            value = self._loader.construct_object(node)
        except yaml.YAMLError:
            raise
        except Exception as error:  # PyYAML lets KeyError, IndexError, ValueError and others out for `!!int x`
            raise _invalid("does not fit its YAML type; put it in quotes to make it text",
                           path, node.start_mark) from error
        if problem := scalar_problem(value):
            raise _invalid(problem, path, node.start_mark)
        return value

    def _note(self, key: yaml.Node, value: yaml.Node, path: Path) -> None:
        if path in self._places:  # what << brings never moves what was written here
            return
        self._places[path] = Place(
            line=value.start_mark.line + 1, column=value.start_mark.column + 1,
            key_line=key.start_mark.line + 1, key_column=key.start_mark.column + 1,
            start=value.start_mark.index, end=value.end_mark.index)


def _yaml_message(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "unreadable"
    if "found character '\\t'" in problem:
        return "is not valid YAML: a line is indented with a tab; use spaces"
    if "could not determine a constructor" in problem:
        return "is not valid YAML here: tags such as !name or !!python are not read"
    return f"is not valid YAML: {problem}"
