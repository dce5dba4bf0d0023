"""The fields of a config model in words: for the reference page, the page of platforms, and forms."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nniweb.experiments.config.fields.walk import file_key, leaf_types
from trainingservice.words.durations import parse_duration, parse_grace

#: Kinds of form controls. A "group" holds the fields below its name, a "group_list" entries with such fields; a
#: "text_map" is names with texts; "json" is for values that have no control of their own.
KINDS = ("boolean", "integer", "number", "choice", "secret", "text", "text_list", "integer_list", "text_map", "group",
         "group_list", "json")


@dataclass(frozen=True)
class FieldDescription:
    """One field of a platform, as a form needs it."""

    #: As files have it: ``workingFolder``, ``loginNode.host``, ``machineList[].host``.
    name: str
    #: In words: "whole number", "text (secret)".
    type: str
    #: What a form has for it, one of KINDS.
    kind: str
    is_required: bool
    #: JSON-able; None where there is none.
    default: Any
    #: Of a choice.
    choices: tuple[str, ...]
    description: str
    is_secret: bool
    #: Lies in a group or a list: a form leaves it to the group's own field.
    is_inner: bool


def describe(model: type[BaseModel], prefix: str = "") -> Iterator[FieldDescription]:
    """All fields, each group before what it holds."""
    for name, field in model.model_fields.items():
        key = prefix + file_key(name, field)
        words = type_words(field)
        choices = _choices(field.annotation)
        yield FieldDescription(
            name=key, type=words, kind=_kind(field, words, choices), is_required=field.is_required(),
            default=_default(field), choices=choices, description=field.description or "",
            is_secret=holds_secret(field), is_inner=bool(prefix))
        for suffix, inner in inner_models(field.annotation):
            yield from describe(inner, f"{key}{suffix}.")


def _kind(field: FieldInfo, words: str, choices: tuple[str, ...]) -> str:
    if choices:
        return "choice"
    plain = {"true or false": "boolean", "whole number": "integer", "number": "number", "text (secret)": "secret",
             "text": "text", "path": "text", "duration": "text"}.get(words)
    return plain or _kind_of_several(field.annotation)


def _kind_of_several(annotation: Any) -> str:
    """Of what holds other values; "json" where it may be of more than one type."""
    leaves = [leaf for leaf in leaf_types(annotation) if leaf is not type(None)]
    if len(leaves) != 1:
        return "json"
    [leaf], origin = leaves, get_origin(leaves[0])
    if isinstance(leaf, type) and issubclass(leaf, BaseModel):
        return "group"
    items = [list(leaf_types(item)) for item in get_args(leaf) if item is not Ellipsis]
    if origin in (list, tuple, set, frozenset) and len(items) == 1 and len(items[0]) == 1:
        [item] = items[0]
        if isinstance(item, type) and issubclass(item, BaseModel):
            return "group_list"
        return {str: "text_list", Path: "text_list", int: "integer_list"}.get(item, "json")
    return "text_map" if origin is dict and items == [[str], [str]] else "json"


def _choices(annotation: Any) -> tuple[str, ...]:
    found = [leaf for leaf in leaf_types(annotation) if leaf is not type(None)]
    literals = [leaf for leaf in found if get_origin(leaf) is Literal]
    return tuple(str(part) for part in get_args(literals[0])) if len(literals) == len(found) == 1 else ()


def holds_secret(field: FieldInfo) -> bool:
    """Whether the field's value is itself a secret."""
    return any(isinstance(leaf, type) and issubclass(leaf, SecretStr) for leaf in leaf_types(field.annotation))


def _default(field: FieldInfo) -> Any:
    if field.is_required():
        return None
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined or holds_secret(field):
        return None
    return json.loads(_as_json(default))


def keys_of(model: type[BaseModel]) -> list[str]:
    """Names of a model's fields, as files have them."""
    return [file_key(name, field) for name, field in model.model_fields.items()]


def inner_models(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models that a field's value is made of, each with what its fields' names begin with."""
    for leaf in leaf_types(annotation):
        if isinstance(leaf, type) and issubclass(leaf, BaseModel):
            yield "", leaf
        elif get_origin(leaf) in (list, tuple):
            for argument in get_args(leaf):
                if isinstance(argument, type) and issubclass(argument, BaseModel):
                    yield "[]", argument


def default_words(field: FieldInfo) -> str:
    """The default as a file would have it."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is None or default is PydanticUndefined:
        return "-"
    return f"`{_as_json(default)}`"


def _as_json(default: Any) -> str:
    return json.dumps(default, default=lambda value: value.model_dump(mode="json", by_alias=True, exclude_none=True)
                      if isinstance(value, BaseModel) else str(value))


def type_words(field: FieldInfo) -> str:
    """The type, for a person."""
    return _type_text(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)


def _type_text(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if any(isinstance(part, BeforeValidator) and part.func in (parse_duration, parse_grace)
               for part in arguments[1:]):
            return "duration"
        return _type_text(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type_text(part) for part in arguments if part is not type(None)))
    if origin is Literal:
        return ", ".join(str(part) for part in arguments)
    if origin in (list, tuple, set, frozenset):
        inner = _type_text(arguments[0])
        return f"list of {inner}s" if inner.endswith(("number", "path")) else f"list of {inner}"
    if isinstance(annotation, type):
        for kind, words in ((bool, "true or false"), (int, "whole number"), (float, "number"),
                            (SecretStr, "text (secret)"), (str, "text"), (Path, "path"), (BaseModel, "group of fields"),
                            (dict, "group of fields")):
            if issubclass(annotation, kind):
                return words
    return "group of fields" if origin is dict else "any value"
