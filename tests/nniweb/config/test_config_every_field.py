"""Every field of every form on every platform: a valid value arrives, a wrong type and an unknown name are answered."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.field_walk import file_key
from nniweb.experiments.config.v1_conversion import V1_FIELDS
from trainingservice.platforms import BUILT_IN, load_platform

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


@dataclass(frozen=True)
class Row:
    """One field: its path (list entries as ``[]``), its annotation, and whether it must be given."""

    platform: str
    path: str
    annotation: Any
    is_required: bool


def fields_of(platform: str, model: type[BaseModel], prefix: str) -> Iterator[Row]:
    for name, field in model.model_fields.items():
        path = prefix + file_key(name, field)
        yield Row(platform, path, field.annotation, field.is_required())
        for inner, suffix in inner_models(field.annotation):
            yield from fields_of(platform, inner, f"{path}{suffix}.")


def inner_models(annotation: Any) -> Iterator[tuple[type[BaseModel], str]]:
    for leaf in leaves(annotation):
        if isinstance(leaf, type) and issubclass(leaf, BaseModel):
            yield leaf, ""
        elif get_origin(leaf) in (list, tuple):
            for item in get_args(leaf):
                yield from ((model, "[]") for model, _ in inner_models(item))


def leaves(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from leaves(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from leaves(member)
    else:
        yield annotation


def rows() -> list[Row]:
    found = list(fields_of("local", ExperimentDocument, ""))
    for name in sorted(BUILT_IN):
        platform = load_platform(name)
        for model in (platform.settings_model, platform.options_model):
            found += fields_of(name, model, "trainingService.")
    return found


def of_a_wrong_type(annotation: Any) -> Any:
    """A value that no member of the annotation takes: a group for scalars, a number for groups."""
    for leaf in leaves(annotation):
        kind = get_origin(leaf) or leaf
        if kind is Literal:
            continue
        if kind is dict or (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return 17
    return {"a group": "of fields"}


def document(platform: str) -> dict[str, Any]:
    return {"searchSpace": SPACE, "trialCommand": "true", "trialConcurrency": 1, "tuner": {"name": "Random"},
            "trainingService": {"platform": platform}}


def with_value(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    config = json.loads(json.dumps(config))
    place: Any = config
    *groups, last = path.split(".")
    for group in groups:
        name = group.removesuffix("[]")
        if group.endswith("[]"):
            place = place.setdefault(name, [{}])
            if not isinstance(place, list):
                raise AssertionError(path)
            place = place[0]
        else:
            place = place.setdefault(name, {})
    place[last] = value
    return config


def errors(config: dict[str, Any], folder: Path) -> dict[str, str]:
    """Messages by field; those about something that is written begin with its place."""
    with pytest.raises(ConfigInvalid) as caught:
        parse_experiment_config(json.dumps(config), folder, cluster_platform=lambda name: "local")
    return {error.field.replace("[0]", "[]"): f"{'at its place: ' if error.column else ''}{error.message}"
            for error in caught.value.errors}


ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.platform}-{row.path}" for row in ROWS])
def test_a_value_of_a_wrong_type_is_named_with_its_place(row: Row, tmp_path: Path) -> None:
    if row.annotation is Any:
        pytest.fail("a field that takes anything needs a type")
    said = errors(with_value(document(row.platform), row.path, of_a_wrong_type(row.annotation)), tmp_path)
    own = [message for field, message in said.items() if field == row.path or field.startswith(f"{row.path}.")]
    assert own, said
    assert own[0].startswith("at its place: "), said


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.platform}-{row.path}" for row in ROWS])
def test_a_misspelt_name_is_answered_with_a_known_one(row: Row, tmp_path: Path) -> None:
    *parents, last = row.path.split(".")
    misspelt = ".".join([*parents, f"{last}x"])
    said = errors(with_value(document(row.platform), misspelt, "v"), tmp_path)
    assert said[misspelt].startswith("at its place: is not a known field here; did you mean "), said


REQUIRED = [row for row in ROWS if row.is_required]


@pytest.mark.parametrize("row", REQUIRED, ids=[f"{row.platform}-{row.path}" for row in REQUIRED])
def test_a_required_field_that_is_missing_is_named(row: Row, tmp_path: Path) -> None:
    config = document(row.platform)
    *parents, last = row.path.split(".")
    # its group is there, but not the field
    config = with_value(config, ".".join([*parents, "description"]) if parents else "description", "text")
    if not parents:
        config.pop(last, None)
    said = errors(config, tmp_path)
    assert row.path in said, said
    assert "required" in said[row.path]


V1_ROWS = [(name, v1) for name in sorted(BUILT_IN) for v1 in
           {**V1_FIELDS, **load_platform(name).settings_model.v1_fields, **load_platform(name).options_model.v1_fields}]


@pytest.mark.parametrize(("platform", "v1"), V1_ROWS, ids=[f"{platform}-{v1}" for platform, v1 in V1_ROWS])
def test_a_misspelt_v1_name_is_answered_with_the_right_one(platform: str, v1: str, tmp_path: Path) -> None:
    *parents, last = v1.split(".")
    misspelt = ".".join([*parents, f"{last.removesuffix('[]')}x"])
    config = with_value({"trainingServicePlatform": platform}, misspelt, "v")
    said = errors(config, tmp_path)
    assert said[misspelt].startswith("at its place: is not a known field here; did you mean "), said
