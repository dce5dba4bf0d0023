"""The one reader of YAML that people and clusters give: plain values, within limits, whatever the text says. And the
writer of what it is to read.

A short text can stand for an endless document: aliases of aliases, mappings that are merged again and again, brackets
within brackets, numbers that take minutes to work out. So what is read is counted while it is read: characters, keys
and values (those that an alias or ``<<`` stands for each time), nesting, and the length of numbers. The values share
nothing, so that whatever is done with them afterwards costs what was counted.

YAML is read by PyYAML's safe loader, as NNI does, with these differences: a key given twice is refused, keys are the
texts that are written, ``1e-3`` is a number (YAML 1.1 wants ``1.0e-3``), and dates stay text.
"""

from __future__ import annotations

import re
from pathlib import Path as FilePath
from typing import Any

import yaml

from trainingservice.files.unlinked_paths import read_file
from trainingservice.files.yaml_faults import UNCLEAR, fault_of
from trainingservice.limited_json import text_problem

#: Keys and list indices from the top of the document.
Path = tuple[str | int, ...]

#: Characters.
LONGEST_TEXT = 1_000_000
#: Keys and values, with those that aliases stand for.
MOST_NODES = 50_000
DEEPEST_NESTING = 50
#: Characters of a key: it stands in the path of all that is told of what is below it.
LONGEST_KEY = 1000
#: Names that are told of a path that is too deep.
_NAMED_OF_DEEP = 3
#: Numbers are smaller, so that every database and every float takes them.
LARGEST_NUMBER = 2**1023
#: Characters of a number; the largest has so many in binary digits. Python needs the square of it in time.
LONGEST_NUMBER = 1100

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
#: What YAML 1.1 takes for text: the tag, the pattern, and the characters that it begins with.
_FLOAT = ("tag:yaml.org,2002:float",
          re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+\Z"), list("-+.0123456789"))
#: Characters that end a line to YAML.
_LINE_ENDS = re.compile("[\r\n\x85\u2028\u2029]")
_MERGE = "tag:yaml.org,2002:merge"


class YamlRefused(ValueError):
    """The text is no YAML that is read here. ``line`` and ``column`` from 1, where the place is known."""

    def __init__(self, message: str, path: Path = (), mark: yaml.Mark | None = None,
                 line: int | None = None, column: int | None = None) -> None:
        self.message, self.path = message, path
        self.line, self.column = (mark.line + 1, mark.column + 1) if mark is not None else (line, column)
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        super().__init__(f"{place}{path_text(path)}{': ' if path else ''}{message}")


def path_text(path: Path) -> str:
    """``("machineList", 0, "port")`` as ``machineList[0].port``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def key_problem(key: str) -> str:
    """Why this cannot be a key, "" where it can."""
    if len(key) > LONGEST_KEY:
        return f"has a key of {len(key)} characters; at most {LONGEST_KEY} are read"
    return text_problem(key)


def scalar_problem(value: object) -> str:
    """Why this value cannot be stored as JSON, "" where it can."""
    if isinstance(value, str):
        return text_problem(value)
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        # also false for NaN
        return "" if -LARGEST_NUMBER < value < LARGEST_NUMBER else "must be a finite number"
    kind = "binary data" if isinstance(value, bytes) else f"a {type(value).__name__}"
    return f"is {kind}, which a config cannot contain; put it in quotes to make it text"


def read_yaml(text: str) -> Any:
    """The values of a YAML text (JSON is YAML, too); None for an empty one. Raises YamlRefused."""
    reading = YamlReading(text.removeprefix("\ufeff"))
    node = reading.root()
    return None if node is None else reading.values(node)


def read_yaml_file(path: FilePath) -> Any:
    """The same of a file, whose path is resolved; no link is followed. Raises YamlRefused and OSError."""
    content = read_file(path, 4 * LONGEST_TEXT)
    try:
        return read_yaml(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise YamlRefused(f"is not UTF-8 text ({error.reason})") from None


class _Loader(yaml.SafeLoader):
    """The safe loader with the numbers of YAML 1.2 and without dates, which stops at the limits."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._composed = self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._composed += 1
        if self._composed > MOST_NODES:
            raise _too_many(self.get_mark())
        if self._depth > DEEPEST_NESTING:
            raise _too_deep((), self.get_mark())
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(*_FLOAT)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which puts into quotes what is a number to the reader here, and escapes ends of lines."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _LINE_ENDS.search(text) else None)


_Dumper.add_implicit_resolver(*_FLOAT)
_Dumper.add_representer(str, _Dumper.represent_text)


def yaml_text(value: Any, *, allow_unicode: bool = True, **style: Any) -> str:
    """A text of which ``read_yaml`` makes the same values. ``style``: of PyYAML's ``dump``, as ``allow_unicode`` is."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, **style))


def _too_many(mark: yaml.Mark | None) -> YamlRefused:
    return YamlRefused(f"it contains more than {MOST_NODES} keys and values, including the content of "
                       "aliases", mark=mark)


def _too_deep(path: Path, mark: yaml.Mark | None) -> YamlRefused:
    """Names the first fields on the way only: an alias of a value within itself has no other end."""
    return YamlRefused(f"is nested more than {DEEPEST_NESTING} levels deep", path[:_NAMED_OF_DEEP], mark)


class YamlReading:
    """One reading of one text. A subclass may note where things stand, and what it does with a key given twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._count = 0

    def root(self) -> yaml.Node | None:
        """The text's one document; None where there is none, or it is null. Raises YamlRefused."""
        if len(self._text) > LONGEST_TEXT:
            raise YamlRefused(f"it has {len(self._text)} characters; at most {LONGEST_TEXT} are read")
        try:
            self._loader = _Loader(self._text)
            node = self._loader.get_single_node()
        except yaml.reader.ReaderError as error:
            before = self._text[:error.position]
            raise YamlRefused("contains a character that YAML does not allow", line=before.count("\n") + 1,
                              column=len(before) - before.rfind("\n")) from error
        except yaml.MarkedYAMLError as error:
            raise self._refused(error) from error
        except yaml.YAMLError as error:
            raise YamlRefused(f"is not valid YAML: {UNCLEAR}") from error
        except RecursionError as error:  # by way of what is no node yet
            raise _too_deep((), None) from error
        return None if node is None or node.tag == "tag:yaml.org,2002:null" else node

    def _refused(self, error: yaml.MarkedYAMLError) -> YamlRefused:
        fault = fault_of(error, self._text)
        return YamlRefused(fault.words, line=fault.line, column=fault.column)

    def values(self, root: yaml.Node) -> Any:
        """What the document stands for. Raises YamlRefused."""
        try:
            return self._value(root, ())
        except RecursionError as error:  # mappings that are merged into mappings, each nested less than the limit
            raise _too_deep((), None) from error

    def _value(self, node: yaml.Node, path: Path) -> Any:
        """A new value each time."""
        self._count_one(node)
        if len(path) > DEEPEST_NESTING:
            raise _too_deep(path, node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.note(item, item, (*path, index))
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def note(self, key: yaml.Node, value: yaml.Node, path: Path) -> None:
        """Told of each value where it stands; ``key`` is the value itself in a list."""

    def given_twice(self, key: yaml.Node, path: Path) -> None:
        """Told of a key that its mapping has already. Raises YamlRefused, or the first one counts."""
        raise YamlRefused("is given twice", path, key.start_mark)

    def _count_one(self, node: yaml.Node) -> None:
        """Aliases and merges can make a short text endless."""
        self._count += 1
        if self._count > MOST_NODES:
            raise _too_many(node.start_mark)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            self._count_one(key_node)
            if key_node.tag == _MERGE:
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            key = self._key(key_node, path)
            if key in result:
                self.given_twice(key_node, (*path, key))
                continue
            self.note(key_node, value_node, (*path, key))
            result[key] = self._value(value_node, (*path, key))
        for source in merged:  # what << brings and is not there yet; its places are those of the anchor
            if not isinstance(source, yaml.MappingNode):
                raise YamlRefused("<< can only merge mappings", path, source.start_mark)
            self._count_one(source)
            for key, value in self._mapping(source, path).items():
                result.setdefault(key, value)
        return result

    def _key(self, node: yaml.Node, path: Path) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise YamlRefused("has a key that is not text", path, node.start_mark)
        key = str(node.value)  # as written: `on:` and `1:` are the texts "on" and "1" as in JSON
        if problem := key_problem(key):
            raise YamlRefused(problem, path, node.start_mark)
        return key

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise YamlRefused(f"is a number of {len(node.value)} characters; at most {LONGEST_NUMBER} are read. Put "
                              "it in quotes to make it text", path, node.start_mark)
        try:
            value = self._loader.construct_object(node)
        except yaml.MarkedYAMLError as error:
            raise self._refused(error) from error
        except Exception as error:  # PyYAML lets KeyError, IndexError, ValueError and others out for `!!int x`
            raise YamlRefused("does not fit its YAML type; put it in quotes to make it text",
                              path, node.start_mark) from error
        if problem := scalar_problem(value):
            raise YamlRefused(problem, path, node.start_mark)
        return value
