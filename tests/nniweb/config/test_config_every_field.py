"""Every field of every form on every platform: a valid value arrives, a wrong type and an unknown name are answered."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.fields.walk import file_key
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
    """A value that no member of the annotation takes: a group for scalars, a number for groups, a text for both."""
    takes_number = int in leaves(annotation)
    for leaf in leaves(annotation):
        kind = get_origin(leaf) or leaf
        if kind is Literal:
            continue
        if kind is dict or (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return "no group" if takes_number else 17
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


def of_each_field(rows: list[Row]) -> Any:
    """A few hundred fields in one test for each platform: a test of its own for each costs more than its work."""
    by_platform = {name: [row for row in rows if row.platform == name] for name in sorted(BUILT_IN)}
    return pytest.mark.parametrize("rows", [pytest.param(found, id=name, marks=marks_of(name))
                                            for name, found in by_platform.items()])


def marks_of(platform: str) -> list[pytest.MarkDecorator]:
    """All platforms take a minute and a half: those nearest to everybody are in the fast suite."""
    return [] if platform in ("local", "remote") else [pytest.mark.slow]


def check_all(rows: list[Any], check: Callable[[Any], None]) -> None:
    """Check every row, and name all that are wrong."""
    wrong = []
    for row in rows:
        try:
            check(row)
        except AssertionError as error:
            wrong.append(f"{row}: {error}")
    assert not wrong, "\n".join(wrong)


def refuses_a_wrong_type(row: Row, tmp_path: Path) -> None:
    assert row.annotation is not Any, "a field that takes anything needs a type"
    said = errors(with_value(document(row.platform), row.path, of_a_wrong_type(row.annotation)), tmp_path)
    own = [message for field, message in said.items() if field == row.path or field.startswith(f"{row.path}.")]
    assert own, said
    assert own[0].startswith("at its place: "), said


@of_each_field(ROWS)
def test_a_value_of_a_wrong_type_is_named_with_its_place(rows: list[Row], tmp_path: Path) -> None:
    check_all(rows, lambda row: refuses_a_wrong_type(row, tmp_path))


def answers_a_misspelt_name(row: Row, tmp_path: Path) -> None:
    *parents, last = row.path.split(".")
    misspelt = ".".join([*parents, f"{last}x"])
    said = errors(with_value(document(row.platform), misspelt, "v"), tmp_path)
    assert said[misspelt].startswith("at its place: is not a known field here; did you mean "), said


def every_error(config: dict[str, Any], folder: Path) -> dict[str, str]:
    """Messages by field; none where nothing is wrong."""
    try:
        parse_experiment_config(json.dumps(config), folder, must_exist=False, cluster_platform=lambda name: "local")
    except ConfigInvalid as invalid:
        return {error.field.replace("[0]", "[]"): error.message for error in invalid.errors}
    return {}


#: How messages about types begin.
TYPE_WORDS = ("must be text", "must be a whole number", "must be a number", "must be true or false", "must be a list",
              "must be a group", "must be one of", "is not a known field")


def a_valid(annotation: Any) -> Any:
    """A value of a type that the annotation takes."""
    leaf = next(leaf for leaf in leaves(annotation) if leaf is not type(None))
    kind = get_origin(leaf) or leaf
    if kind is Literal:
        return get_args(leaf)[0]
    if kind in (list, tuple, set, frozenset):
        return [a_valid(get_args(leaf)[0])]
    if kind is dict:
        return {}
    values = {bool: False, int: 1, float: 1.5, str: "text", Path: "/tmp", SecretStr: "secret"}
    return next((value for known, value in values.items() if issubclass(kind, known)), None)


@of_each_field(ROWS)
def test_a_misspelt_name_is_answered_with_a_known_one(rows: list[Row], tmp_path: Path) -> None:
    check_all(rows, lambda row: answers_a_misspelt_name(row, tmp_path))


VALID_ROWS = [row for row in ROWS if a_valid(row.annotation) is not None]


def takes_the_right_type(row: Row, tmp_path: Path) -> None:
    """Rules of a field's own (a name that must exist, a range) may still speak; its type must not."""
    config = with_value(document(row.platform), row.path, a_valid(row.annotation))
    said = every_error(config, tmp_path).get(row.path, "")
    assert not said.startswith(TYPE_WORDS), said


@of_each_field(VALID_ROWS)
def test_a_value_of_the_right_type_is_not_refused_for_its_type(rows: list[Row], tmp_path: Path) -> None:
    check_all(rows, lambda row: takes_the_right_type(row, tmp_path))


def misses_a_required_field(row: Row, tmp_path: Path) -> None:
    config = document(row.platform)
    *parents, last = row.path.split(".")
    # its group is there, but not the field
    config = with_value(config, ".".join([*parents, "description"]) if parents else "description", "text")
    if not parents:
        config.pop(last, None)
    said = errors(config, tmp_path)
    assert row.path in said, said
    assert "required" in said[row.path]


@of_each_field([row for row in ROWS if row.is_required])
def test_a_required_field_that_is_missing_is_named(rows: list[Row], tmp_path: Path) -> None:
    check_all(rows, lambda row: misses_a_required_field(row, tmp_path))


V1_OF_ALL = ("local", V1_FIELDS)
V1_ROWS = [V1_OF_ALL, *((name, {**load_platform(name).settings_model.v1_fields,
                                **load_platform(name).options_model.v1_fields}) for name in sorted(BUILT_IN))]
of_each_v1_form = pytest.mark.parametrize(("platform", "fields"), [
    pytest.param(*row, id="of all" if row is V1_OF_ALL else row[0], marks=marks_of(row[0])) for row in V1_ROWS])


@of_each_v1_form
def test_a_misspelt_v1_name_is_answered_with_the_right_one(platform: str, fields: dict[str, str], tmp_path: Path
                                                            ) -> None:
    def check(v1: str) -> None:
        *parents, last = v1.split(".")
        misspelt = ".".join([*parents, f"{last.removesuffix('[]')}x"])
        said = errors(with_value({"trainingServicePlatform": platform}, misspelt, "v"), tmp_path)
        assert said[misspelt].startswith("at its place: is not a known field here; did you mean "), said

    check_all(list(fields), check)


@of_each_v1_form
def test_a_v1_value_of_a_wrong_type_is_named_as_the_file_has_it(platform: str, fields: dict[str, str], tmp_path: Path
                                                                 ) -> None:
    def check(v1: str) -> None:
        path = v1.removesuffix("[]")
        said = [errors(with_value({"trainingServicePlatform": platform}, path, value), tmp_path)
                for value in ({"a group": "of fields"}, 17)]
        assert any(field == path or field.startswith(f"{path}.") for found in said for field in found), said

    check_all([v1 for v1 in fields if v1 != "trainingServicePlatform"], check)
    assert "trainingServicePlatform" in errors({"trainingServicePlatform": 17}, tmp_path)
