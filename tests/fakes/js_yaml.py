"""YAML as OpenPAI's rest-server reads it: js-yaml 3.13.1 (``safeLoad``), which its lock file pins.

PyYAML finds the structure. What a plain scalar means is js-yaml's: the rules below say what its files
lib/js-yaml/type/{null,bool,int,float,timestamp,merge}.js say. Keys become text, as they do in JavaScript, and numbers
are those of JavaScript. Recorded readings of the real one are in tests/recordings/openpai.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(
    r"[-+]?(?:0"
    r"|0b_*[01](?:[01_]*[01])?"
    r"|0x_*[0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?"
    r"|0_*[0-7](?:[0-7_]*[0-7])?"
    r"|[1-9](?:[0-9_]*[0-9])?"
    r"|[1-9][0-9_]*(?::[0-5]?[0-9])+)\Z")
_FLOAT = re.compile(
    r"(?!.*_\Z)(?:[-+]?(?:0|[1-9][0-9_]*)(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?"
    r"|\.[0-9_]+(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
    r"|[-+]?\.(?:inf|Inf|INF)"
    r"|\.(?:nan|NaN|NAN))\Z")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?\Z|[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
#: In the order in which js-yaml tries them.
_PLAIN = [("null", re.compile(r"(?:~|null|Null|NULL|)\Z")),
          ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
          ("int", _INTEGER), ("float", _FLOAT), ("timestamp", _TIMESTAMP), ("merge", re.compile(r"<<\Z"))]


class NotReadable(Exception):
    """js-yaml throws. The rest-server answers 500 then."""


@dataclass(frozen=True)
class Moment:
    """A ``Date``, by what it was read from."""

    text: str


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {None: [(_TAG + name, pattern) for name, pattern in _PLAIN]}

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            for name, pattern in _PLAIN:
                if pattern.match(value):
                    return _TAG + name
            return _TAG + "str"
        return str(super().resolve(kind, value, implicit))


def read(text: str) -> Any:
    """What the document is in JavaScript. Raises NotReadable."""
    try:
        node = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise NotReadable(str(error)) from error
    return None if node is None else _value(node)


def as_json(value: Any) -> Any:
    """What ``JSON.stringify`` makes of it: numbers that are none become null."""
    if isinstance(value, dict):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if isinstance(value, Moment):
        return value.text
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(part) for part in node.value]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node)
    kind, text = node.tag.removeprefix(_TAG), str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return _number(_integer(text.replace("_", "")))
    if kind == "float":
        return _number(_float(text.replace("_", "").lower()))
    return Moment(text) if kind == "timestamp" else text


def _mapping(node: yaml.MappingNode) -> dict[str, Any]:
    found: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if key_node.tag == _TAG + "merge":
            sources = _value(value_node)
            for source in sources if isinstance(sources, list) else [sources]:
                if not isinstance(source, dict):
                    raise NotReadable("cannot merge mappings; the provided source object is unacceptable")
                merged = {**source, **merged}
            continue
        key = text_of(_value(key_node))
        if key in found:
            raise NotReadable("duplicated mapping key")
        found[key] = _value(value_node)
    return {**merged, **found}


def _integer(text: str) -> float:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    if ":" in digits:
        return sign * _of_sixty(digits)
    base = 10 if digits[0] != "0" or digits == "0" else {"b": 2, "x": 16}.get(digits[1], 8)
    try:
        return sign * float(int(digits[2:] if base in (2, 16) else digits, base))
    except OverflowError:
        return sign * math.inf


def _float(text: str) -> float:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    if digits in (".inf", ".nan"):
        return sign * float(digits[1:])
    if ":" in digits:
        return sign * _of_sixty(digits)
    return sign * (math.nan if digits.startswith((".e", "..")) or digits == "." else float(digits))


def _of_sixty(digits: str) -> float:
    value = 0.0
    for part in digits.split(":"):
        value = value * 60 + float(part)
    return value


def _number(value: float) -> int | float:
    """Whole ones as int, which Python writes as JavaScript does."""
    return int(value) if math.isfinite(value) and value.is_integer() else value


def text_of(value: Any) -> str:
    """``String(value)``, of what can be a key."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if abs(value) < 1e21 and float(value).is_integer():
            return str(int(value))
        return re.sub(r"e([-+])0+", r"e\1", repr(float(value))).replace(".0e", "e")
    if isinstance(value, Moment):
        return f"Date {value.text}"
    if isinstance(value, list):
        return ",".join(map(text_of, value))
    return "[object Object]" if isinstance(value, dict) else str(value)
