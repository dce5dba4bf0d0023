"""Validates a canonical document with a pydantic model and says in plain sentences what does not fit."""

from __future__ import annotations

import json
import logging
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from nniweb.experiments.config.fields.walk import nearest
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.yaml_positions import Path

logger = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], document: dict[str, Any], path: Path, findings: Findings,
             secrets: frozenset[Path] = frozenset(), context: dict[str, Any] | None = None) -> Model | None:
    """An instance of ``model``, or None after adding what is wrong to ``findings``.

    Types are strict ("2" is no number, 1 is no truth value), read as JSON is: text may become a
    path, a list a tuple. ``path`` is where the document stands; values at ``secrets`` are not shown.
    """
    text = json.dumps(document)
    try:
        try:
            return model.model_validate_json(text, strict=True, context=context)
        except ValidationError as invalid:
            # strict mode also refuses the list that a field's own validator made for a tuple, and the like
            errors = [error for error in invalid.errors() if not _is_right_but_for_its_container(error)]
            if not errors:
                return model.model_validate_json(text, context=context)
    except ValidationError as invalid:
        errors = invalid.errors()
    except Exception:
        # a defect of a platform's validator shall cost its author a log line, not the reader a traceback
        logger.exception("a validator of %s failed", model.__qualname__)
        findings.add(path, "has a value that cannot be checked; compare it with the documentation")
        return None
    _tell(errors, document, path, findings, secrets)
    return None


def problem_of(kind: Any, value: Any) -> str:
    """Why a value is not of a type, "" where it is. As strict as ``validate``."""
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as invalid:
        wrong = [error for error in invalid.errors() if not _is_right_but_for_its_container(error)]
        return sentence(wrong[0]) if wrong else ""
    return ""


def _is_right_but_for_its_container(error: ErrorDetails) -> bool:
    value = error["input"]
    if error["type"] in ("tuple_type", "set_type", "frozen_set_type", "list_type"):
        return isinstance(value, list | tuple | set | frozenset)
    if error["type"] == "too_short":  # entries that are wrong, or right but for a container of theirs, do not count
        return isinstance(value, list) and len(value) >= error.get("ctx", {}).get("min_length", 0)
    return error["type"] in ("path_type", "is_instance_of") and isinstance(value, str)


def _tell(errors: list[ErrorDetails], document: dict[str, Any], path: Path, findings: Findings,
          secrets: frozenset[Path]) -> None:
    best: dict[Path, ErrorDetails] = {}
    for error in errors:
        place = (*path, *_place_in(document, error))
        # each member of a union complains; a validator's own sentence says most
        if place not in best or error["type"] == "value_error":
            best[place] = error
    for place, error in best.items():
        if not findings.has_error(place):
            findings.add(place, sentence(error, hidden=place in secrets))


def _place_in(document: Any, error: ErrorDetails) -> Path:
    """The error's location without the names pydantic puts in for members of unions."""
    place: list[str | int] = []
    value = document
    location = error["loc"]
    for number, part in enumerate(location):
        # "missing", or what a validator said of the default; it is no name of a type in a union
        is_missing = number == len(location) - 1 and (error["type"] == "missing" or (
            error["type"] == "value_error" and isinstance(part, str) and part.isidentifier() and part[0].islower()))
        if isinstance(value, dict) and (part in value or is_missing):
            place.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            place.append(part)
            value = value[part]
    return tuple(place)


def shown(value: Any) -> str:
    """A value as the caller wrote it, shortened; of groups only their kind."""
    if isinstance(value, dict):
        return "a group of fields"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:56] + '..."'


def sentence(error: ErrorDetails, hidden: bool = False) -> str:
    """What pydantic found, for a person who has never heard of pydantic."""
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    given = "" if hidden else f", not {shown(value)}"
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    if kind == "string_type":
        return f"must be text{given}" + ("" if isinstance(value, dict | list) else "; put it in quotes")
    if kind in ("literal_error", "enum"):
        options = str(context.get("expected", "")).replace("'", "")
        hint = nearest(value, options.replace(" or ", ", ").split(", ")) if isinstance(value, str) else ""
        return f"must be {options}{given}{hint}"
    limits = {"greater_than": ("greater than", "gt"), "greater_than_equal": ("at least", "ge"),
              "less_than": ("less than", "lt"), "less_than_equal": ("at most", "le")}
    if kind in limits:
        words, key = limits[kind]
        return f"must be {words} {context.get(key)}{given}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "string_too_long":
        return f"must have at most {context.get('max_length')} characters"
    if kind == "too_short":
        return f"must have at least {context.get('min_length')} entries"
    for prefix, words in {"int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
                          "tuple": "a list", "set": "a list", "dict": "a group of fields", "path": "a path",
                          "model": "a group of fields", "dataclass": "a group of fields"}.items():
        if kind.startswith(prefix + "_"):
            return f"must be {words}{given}"
    message = error["msg"]
    return message[:1].lower() + message[1:]
