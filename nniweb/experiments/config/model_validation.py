"""Validates a canonical document with a pydantic model and says in plain sentences what does not fit."""

from __future__ import annotations

import functools
import json
import logging
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from nniweb.experiments.config.fields.description import describe, holds_secret, inner_models
from nniweb.experiments.config.fields.walk import file_key, model_fields, nearest
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.yaml_positions import Path
from trainingservice import refused_values
from trainingservice.limited_json import WHY, places_of_bad_texts
from trainingservice.refused_values import options_of, placeholder_sentence

logger = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], document: dict[str, Any], path: Path, findings: Findings,
             secrets: frozenset[Path] = frozenset(), context: dict[str, Any] | None = None) -> Model | None:
    """An instance of ``model``, or None after adding what is wrong to ``findings``.

    Types are strict ("2" is no number, 1 is no truth value), read as JSON is: text may become a
    path, a list a tuple. ``path`` is where the document stands; values at ``secrets`` are not shown.
    """
    if bad := list(places_of_bad_texts(document)):
        for place in bad:
            findings.add((*path, *place), WHY)
        return None
    text = json.dumps(document)
    try:
        try:
            return model.model_validate_json(text, strict=True, context=context)
        except ValidationError as invalid:
            # strict mode also refuses the list that a field's own validator made for a tuple, and the like
            errors = [error for error in invalid.errors() if not _is_right_but_for_its_container(error)]
            if not errors:
                return model.model_validate_json(text, context=context)
            errors += _errors_in_containers(model, text, context, invalid.errors())
    except ValidationError as invalid:
        errors = invalid.errors()
    except Exception:
        # a defect of a platform's validator shall cost its author a log line, not the reader a traceback
        logger.exception("a validator of %s failed", model.__qualname__)
        findings.add(path, "has a value that cannot be checked; compare it with the documentation")
        return None
    _tell(model, errors, document, path, findings, secrets)
    return None


def _errors_in_containers(model: type[BaseModel], text: str, context: dict[str, Any] | None,
                          strict: list[ErrorDetails]) -> list[ErrorDetails]:
    """What is wrong inside of lists that strict mode did not look into, because a validator had made them."""
    places = [error["loc"] for error in strict if _is_right_but_for_its_container(error)]
    try:
        model.model_validate_json(text, context=context)
    except ValidationError as invalid:
        return [error for error in invalid.errors()
                if any(error["loc"][:len(place)] == place != error["loc"] for place in places)]
    return []


def problem_of(kind: Any, value: Any) -> str:
    """Why a value is not of a type, "" where it is. As strict as ``validate``."""
    try:
        TypeAdapter(kind).validate_python(value, strict=True, context={"must_exist": False})
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


def _tell(model: type[BaseModel], errors: list[ErrorDetails], document: dict[str, Any], path: Path, findings: Findings,
          secrets: frozenset[Path]) -> None:
    found: dict[Path, list[ErrorDetails]] = {}
    for error in errors:
        found.setdefault((*path, *_place_in(document, error)), []).append(error)
    for place, here in found.items():
        # a member of a union has looked into the list or group; that it is none of the other members tells nothing
        is_looked_into = isinstance(here[0]["input"], list | dict) and any(
            other[:len(place)] == place != other for other in found)
        if not is_looked_into and not findings.has_error(place):
            findings.add(place, _said_of(model, here, place[len(path):], is_secret=place in secrets))


def _said_of(model: type[BaseModel], errors: list[ErrorDetails], place: Path, *, is_secret: bool) -> str:
    """What to say of one value: each member of a union complains. A validator's own sentence says most, then what a
    member says that takes such values, only not so long ones or so short ones.
    """
    telling = sorted(errors, key=lambda error: (error["type"] != "value_error", not _is_of_length(error)))
    error = telling[0]
    is_hidden = is_secret or _may_hold_secret(model, place)
    said = sentence(error, is_hidden)
    if error["type"] == "missing" and (meaning := _meaning(model, place)):
        return f"{said}: {meaning}"
    if error["type"] == "value_error" or _is_of_length(error) or is_secret:
        return said
    if not is_hidden:
        said = refused_values.one_of(errors) or said
    if any(error["type"] in ("model_type", "dataclass_type") for error in errors) and not isinstance(
            error["input"], dict) and (
            example := _example(model, place, error["input"], is_hidden=is_hidden)):
        said += f"; such a group is {example}"
    return said


def _is_of_length(error: ErrorDetails) -> bool:
    return error["type"].endswith(("too_long", "too_short"))


def _example(model: type[BaseModel], place: Path, value: Any, *, is_hidden: bool) -> str:
    """The group that may be meant by a plain value in its place; "" where it is not known which group that is."""
    _, models = _fields_at(model, place)
    group = next(iter(models), None)
    if group is None or isinstance(value, dict | list):
        return ""
    fields = {file_key(name, field): field for name, field in group.model_fields.items()}
    required = [key for key, field in fields.items() if field.is_required()]
    written = []
    for number, key in enumerate(required or list(fields)[:1]):
        # "": it needs something to annotate
        kind = Annotated[(fields[key].annotation, *fields[key].metadata, "")]  # type: ignore[valid-type]
        takes = number == 0 and not is_hidden and value is not None and not problem_of(kind, value)
        written.append(f"{key}: {value if takes else '...'}")
    return f"{{{', '.join(written)}}}"


def _may_hold_secret(model: type[BaseModel], place: Path) -> bool:
    """Whether the value at a place of this model is a secret, or has some inside when it is right."""
    models: list[type[BaseModel]] = [model]
    is_secret = False
    for part in place:
        if isinstance(part, int):
            continue
        alternatives = model_fields(models).get(part, [])
        is_secret = any(holds_secret(field) for field in alternatives)
        models = [inner for field in alternatives for _, inner in inner_models(field.annotation)]
    return is_secret or any(map(_has_secrets, models))


@functools.lru_cache(maxsize=512)
def _has_secrets(model: type[BaseModel]) -> bool:
    return any(described.is_secret for described in describe(model))


def _meaning(model: type[BaseModel], place: Path) -> str:
    """What the field is, by its description's first sentence; "" where it has none."""
    description, _ = _fields_at(model, place)
    first = description.split(". ")[0].rstrip(".")
    return first if first[1:2].isupper() else first[:1].lower() + first[1:]


def _fields_at(model: type[BaseModel], place: Path) -> tuple[str, list[type[BaseModel]]]:
    """The description of the field ("" where it has none), and the groups that it may hold."""
    models, description = [model], ""
    for part in place:
        if isinstance(part, int):
            continue
        alternatives = model_fields(models).get(part, [])
        description = next((field.description for field in alternatives if field.description), "")
        models = [inner for field in alternatives for _, inner in inner_models(field.annotation)]
    return description, models


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


def sentence(error: ErrorDetails, hidden: bool = False) -> str:
    """What pydantic found, with the nearest word of those that the field takes."""
    said, value = refused_values.sentence(error, hidden), error.get("input")
    if error["type"] in ("literal_error", "enum") and isinstance(value, str) and not placeholder_sentence(value):
        said += nearest(value, options_of(error).replace(" or ", ", ").split(", "))
    return said
