import pytest

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.config.yaml_positions import read_mapping, read_text


def errors(text: str) -> list[ConfigError]:
    with pytest.raises(ConfigInvalid) as caught:
        read_text(text)
    return caught.value.errors


def test_each_value_and_its_key_have_a_place() -> None:
    place = read_text("a: 1\nb:\n  - {c:   x}\n").places[("b", 0, "c")]
    assert (place.line, place.column, place.key_line, place.key_column) == (3, 11, 3, 6)


def test_json_is_read_as_json_and_has_places_too() -> None:
    document = read_text('{"a": "\\ud83d\\ude00", "b": [1e-3]}')
    assert document.data == {"a": "\U0001f600", "b": [0.001]}
    assert read_text('{"a": 1,\n "b": 2}').places[("b",)].line == 2


def test_json_with_tabs_is_read_although_yaml_forbids_them() -> None:
    assert read_text('{\n\t"a": {\n\t\t"b": 1\n\t}\n}').data == {"a": {"b": 1}}


def test_yaml_flow_style_that_is_no_json_is_read() -> None:
    assert read_text("{a: 1, b: [x]}").data == {"a": 1, "b": ["x"]}


def test_broken_json_names_the_place() -> None:
    [error] = errors('{"a": 1,\n "b" 2}')
    assert "JSON" in error.message
    assert (error.line, error.column) == (2, 6)


@pytest.mark.parametrize(("text", "value"), [
    ("1e-3", 0.001), ("1E5", 100000.0), ("1.5e3", 1500.0), ("0.1", 0.1), ("yes", True), ("2020-01-02", "2020-01-02"),
    ("'1e-3'", "1e-3"), ("1e-3x", "1e-3x"), ("~", None), ("0x10", 16), ("e5", "e5"),
])
def test_scalars_are_read_as_nni_does_but_for_exponents_and_dates(text: str, value: object) -> None:
    assert read_text(f"a: {text}").data == {"a": value}


def test_keys_are_text_whatever_they_look_like() -> None:
    assert read_text("on: 1\n2: x\nnull: y").data == {"on": 1, "2": "x", "null": "y"}


@pytest.mark.parametrize(("text", "line", "column", "word"), [
    ("a: 1\nb: [1, 2\nc: 3", 2, 4, "YAML"),
    ("a: 1\n\tb: 2", 2, 1, "tab"),
    ("a: 1\na: 2", 2, 1, "twice"),
    ("x:\n  a: 1\n  a: 2", 3, 3, "twice"),
    ("a: !!python/object:os.system x", 1, 4, "tags"),
    ("a: !!int x", 1, 4, "quotes"),
    ("a: !!binary aGFsbG8=", 1, 4, "quotes"),
    ("a: .nan", 1, 4, "finite"),
    ("a: 1e999", 1, 4, "finite"),
    ("a: 0x" + "f" * 400, 1, 4, "finite"),
    ("? [a]\n: 1", 1, 3, "key"),
    ("- a", 1, 1, "mapping"),
    ("just text", 1, 1, "mapping"),
    ('a: "\\0"', 1, 4, "U+0000"),
    ('a: "\\ud800"', 1, 4, "surrogate"),
    ("a: b\x07c", 1, 5, "character"),
    ("a: 1\n---\nb: 2", 2, 1, "document"),
    ("<<: 3", 1, 5, "<<"),
])
def test_what_cannot_be_read_is_told_with_its_place(text: str, line: int, column: int, word: str) -> None:
    [error] = errors(text)
    assert word in error.message
    assert (error.line, error.column) == (line, column)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_called_empty(text: str) -> None:
    assert "empty" in errors(text)[0].message


def test_all_doubled_keys_are_told() -> None:
    assert [error.field for error in errors("a: 1\na: 2\nb: {c: 1, c: 2}\n")] == ["a", "b.c"]


def test_merged_keys_give_way_to_those_written_out() -> None:
    document = read_text("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\n")
    assert document.data["use"] == {"x": 1, "y": 3}
    assert document.places[("use", "y")].line == 4


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
MERGE_BOMB = "a0: &a0 {}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12))


@pytest.mark.parametrize("text", [
    BOMB, MERGE_BOMB, "a: &a [*a]", "a: &a {<<: *a}", "a: " + "[" * 5000, "a: " + "[" * 60 + "]" * 60,
    '{"a": ' * 3000 + "1" + "}" * 3000, "a: " + "x" * 1_000_001,
], ids=["aliases", "merges", "recursive alias", "recursive merge", "open lists", "deep lists", "deep json", "long"])
def test_a_text_made_to_exhaust_the_reader_is_refused(text: str) -> None:
    assert errors(text)


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, {"a": float("inf")}, {"a": {"b\0": 1}}, {"a": b"x"}])
def test_values_that_no_file_could_hold_are_refused(value: dict) -> None:
    with pytest.raises(ConfigInvalid):
        read_mapping(value)


def test_a_mapping_that_holds_itself_is_refused() -> None:
    value: dict = {}
    value["a"] = value
    with pytest.raises(ConfigInvalid, match="levels deep"):
        read_mapping(value)
