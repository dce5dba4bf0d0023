"""What is refused is told in sentences: no regular expression and no message of a library reaches a person."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel, Field, SecretStr, TypeAdapter, ValidationError

from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.fields.description import inner_models
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.model_validation import validate
from nniweb.tuning.algorithms import ASSESSORS, TUNERS
from trainingservice.files import yaml_faults
from trainingservice.platforms import load_platform, platform_names
from trainingservice.refused_values import refusals, sentence


def models() -> Iterator[type[BaseModel]]:
    """Everything that a file may hold, groups within groups too."""
    waiting: list[type[BaseModel]] = [ExperimentDocument]
    for name in platform_names():
        platform = load_platform(name)
        waiting += [platform.settings_model, platform.options_model]
    waiting += [algorithm.class_args for algorithm in (*TUNERS, *ASSESSORS)]
    seen: set[type[BaseModel]] = set()
    while waiting:
        model = waiting.pop()
        if model not in seen:
            seen.add(model)
            yield model
            waiting += [inner for field in model.model_fields.values() for _, inner in inner_models(field.annotation)]


def constraints(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Annotated:
        _, *metadata = get_args(annotation)
        yield from metadata
    for argument in get_args(annotation):
        yield from constraints(argument)


def test_no_field_has_a_form_that_pydantic_would_tell_of() -> None:
    told = [f"{model.__name__}.{name}" for model in models() for name, field in model.model_fields.items()
            if any(getattr(one, "pattern", None) for one in [*field.metadata, *constraints(field.annotation)])]
    assert told == []
    assert sum(1 for _ in models()) > 40


@pytest.mark.parametrize(("kind", "value"), [
    (Annotated[int, "x"], "seven"), (float, "x"), (bool, 3), (str, 5), (list[int], 3), (tuple[int, ...], {}),
    (dict[str, int], 3), (set[int], 3), (bytes, 3), (complex, "x"), (Annotated[float, "x"], []),
])
def test_every_kind_of_error_has_words_of_its_own(kind: Any, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value, strict=True)
    for error in refused.value.errors():
        said = sentence(error)
        assert error["msg"].lower() not in said.lower()
        assert re.match(r"(must|has|is) ", said), said


@pytest.mark.parametrize(("kind", "value", "words"), [
    (Annotated[SecretStr, Field(min_length=6)], "abc", "must have at least 6 characters"),
    (Annotated[SecretStr, Field(max_length=1)], "abc", "must have at most 1 character"),
    (Annotated[str, Field(min_length=6)], "abc", "must have at least 6 characters"),
    (Annotated[str, Field(min_length=1)], "", "must not be empty"),
    (Annotated[str, Field(max_length=2)], "abc", "must have at most 2 characters"),
    (Annotated[list[int], Field(min_length=2)], [1], "must have at least 2 entries"),
    (Annotated[list[int], Field(min_length=1)], [], "must have at least 1 entry"),
    (Annotated[dict[str, int], Field(max_length=0)], {"a": 1}, "must have at most 0 entries"),
])
def test_a_length_is_counted_in_characters_or_entries(kind: Any, value: object, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    assert [sentence(error) for error in refused.value.errors()] == [words]


@pytest.mark.parametrize(("field", "value", "words"), [
    ("environment", {"9A": "x"}, "must be the name of a variable"),
    ("trainingService.runAs", "a user", "must be the name of a user"),
    ("trainingService.gpuIndices", {"your_gpus": None}, "is a placeholder, {your_gpus}: write your own value"),
    ("trialCommand", {"your_command": None}, "is a placeholder, {your_command}"),
    ("trialConcurrency", "<how many>", "is a placeholder, <how many>"),
    ("trialConcurrency", None, "is required: how many trials run at the same time"),
])
def test_a_value_is_told_what_it_must_be(v2: dict[str, Any], errors_of: Callable[..., Any], field: str, value: object,
                                         words: str) -> None:
    *groups, key = field.split(".")
    place = v2
    for group in groups:
        place = place[group]
    place[key] = value
    errors = errors_of(v2)
    assert [error.field.startswith(field) for error in errors] == [True]
    assert words in errors[0].message


@pytest.mark.parametrize(("text", "words"), [
    ("a: b: c", "a second colon"),
    ("a: 1\nb\nc: 2", "a line without a colon"),
    ("a:\n  - 1\n 2: 3", "indented otherwise"),
    ("a: }", "a value is missing"),
    ("  a: 1\nb: 2", "the same column"),
    ("a: 1\n---\nb: 2", "a second document"),
    ("a: [1, 2", "a bracket opens here"),
    ("a: {b: 1 c: 2}", "a comma or the closing bracket"),
    ("a: 'b", "a quote opens here"),
    ('a: "\\q"', "a backslash"),
    ("a: *b", "the name behind *"),
    ("a: @b", "put it in quotes"),
    ("a: %b", "put it in quotes"),
    ("\ta: 1", "use spaces"),
])
def test_text_that_is_no_yaml_is_told_what_to_look_for_and_where(errors_of: Callable[..., Any], text: str, words: str
                                                                 ) -> None:
    error = errors_of(text)[0]
    assert words in error.message
    assert error.line is not None
    for message in yaml_faults._WORDS:  # PyYAML's own
        assert message not in error.message


@pytest.mark.parametrize(("text", "line", "column", "words"), [
    ("a: 1\ntrialCommand python3 x.py\nb: 2\n", 2, 1, "a line without a colon"),
    ("tuner:\n  name TPE\n  classArgs:\n    seed: 1\n", 2, 3, "a line without a colon"),
    ("a: 1\ntrialConcurrency:2\nb: 3\n", 2, 1, "a blank is missing after the colon"),
    ('a: 1\nname: "abc\nb: 2\nc: 3\n', 2, 7, "a quote opens here"),
    ("a: 1\nlist: [0, 1\nb: 2\n", 2, 7, "a bracket opens here"),
    ("space: {x: {_type: uniform, _value: [0, 1]}\nb: 2\n", 1, 8, "a bracket opens here"),
    ("list: [\n  1,\n  2\n  3: 4]\nb: 2\n", 4, 4, "a comma or the closing bracket"),
    ("a: [1, 2]]\nb: 3\n", 1, 10, "that nothing opened"),
    ("a: 1\n  b: 2\n", 2, 4, "indented further"),
    ("a: 1\ntrialCommand: python3 x.py: y\n", 2, 27, "a second colon"),
])
def test_the_line_of_the_mistake_is_named_not_where_the_parser_noticed_it(
        errors_of: Callable[..., Any], text: str, line: int, column: int, words: str) -> None:
    [error] = errors_of(text)
    assert words in error.message
    assert (error.line, error.column) == (line, column)


def test_text_that_is_no_json_is_told_so(errors_of: Callable[..., Any]) -> None:
    error = errors_of('{"a": 1 "b": @}')[0]
    assert "is not valid JSON here: a comma" in error.message
    with pytest.raises(json.JSONDecodeError) as library:
        json.loads('{"a": 1 "b": @}')
    assert library.value.msg not in error.message


def test_no_refusal_shows_a_text_in_which_a_secret_is_or_may_be() -> None:
    class Inner(BaseModel):
        password: SecretStr | None = None

    class Outer(BaseModel):
        inner: list[Inner] = []
        mode: str = ""

    for document in ({"inner": '[{"password": "sesame"}]'}, {"inner": "{sesame}"}, {"inner": ["sesame"]},
                     {"mode": "\ud800 sesame"}, {"inner": [{"password": ["sesame"]}]}):
        findings = Findings({})
        assert validate(Outer, document, (), findings) is None
        with pytest.raises(ConfigInvalid) as refused:
            findings.raise_if_any()
        assert "sesame" not in str(refused.value)
    with pytest.raises(ValidationError) as invalid:
        Outer.model_validate_json('{"mode": sesame}')
    assert [said for _, said in refusals(invalid.value)] == ["must be JSON"]
