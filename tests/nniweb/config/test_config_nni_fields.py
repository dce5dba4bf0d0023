"""Every field that NNI documents, on every platform: a valid value arrives, one that is required is missed, a wrong
type is named with its line and column. The table is NNI's, not made from our models.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, ParsedConfig, parse_experiment_config, resolved_document
from tests.nni_files.yaml_tables import read_table

TABLE = read_table(Path(__file__).parents[2] / "recordings/nni/config_fields.yaml")
MARK = "not of this type"
#: Values that no field of the type takes.
WRONG: dict[str, list[Any]] = {
    "text": [17], "path": [17], "one of": [17], "integer": ["1"], "boolean": ["true"], "group": [17], "list": [17],
    "duration": [MARK], "size": [MARK], "gpus": [MARK]}
#: And more of them, where one is not enough.
ALSO_WRONG: dict[str, list[Any]] = {
    "text": [{MARK: 1}], "path": [{MARK: 1}], "one of": [MARK], "integer": [MARK], "boolean": ["maybe", 1],
    "duration": [{MARK: 1}], "gpus": [{MARK: 1}]}
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


@dataclass(frozen=True)
class Row:
    base: dict[str, Any]
    field: str
    kind: str
    required: str
    value: Any
    arrives: str
    expected: Any


def rows(section: dict[str, Any]) -> Iterator[Row]:
    for field, kind, required, value, arrives, *expected in section["fields"]:
        needs = {True: "yes", False: "no"}.get(required, required)  # YAML 1.1 reads yes and no as truth values
        yield Row(section["base"], field, kind, needs, value, arrives, expected[0] if expected else value)


#: All platforms take half a minute: of what is dear, the form of every file is in the fast suite.
FAST = ("local", "own class", "advisor")
ALL = pytest.mark.parametrize("section", [
    pytest.param(section, id=f"{form} {name}")
    for form, sections in TABLE.items() for name, section in sections.items()])
EACH = pytest.mark.parametrize("section", [
    pytest.param(section, id=f"{form} {name}", marks=[] if name in FAST else [pytest.mark.slow])
    for form, sections in TABLE.items() for name, section in sections.items()])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "space.json").write_text(json.dumps(SPACE))
    return tmp_path


def place_of(config: Any, field: str, *, make: bool = False) -> tuple[Any, Any]:
    """The group or list that holds the field, and its key there."""
    *parents, last = [int(part) if part.isdigit() else part for part in field.split(".")]
    for parent in parents:
        config = config.setdefault(parent, {}) if make and isinstance(config, dict) else config[parent]
    return config, last


def with_value(row: Row, value: Any) -> dict[str, Any]:
    config = copy.deepcopy(row.base)
    place, key = place_of(config, row.field, make=True)
    place[key] = value
    if row.field.endswith(("openpaiConfig", "sshKeyFile", "openpaiConfigFile", "paiConfigPath")):
        place.pop("password", None)
    return config


def parsed(config: dict[str, Any] | str, folder: Path) -> ParsedConfig:
    return parse_experiment_config(config, folder, must_exist=False)


def errors(config: dict[str, Any] | str, folder: Path) -> list[Any]:
    try:
        parsed(config, folder)
    except ConfigInvalid as invalid:
        return invalid.errors
    return []


def dotted(field: str) -> str:
    return field.replace("[", ".").replace("]", "")


def check_all(section: dict[str, Any], check: Any) -> None:
    wrong = []
    for row in rows(section):
        try:
            if said := check(row):
                wrong.append(f"{row.field}: {said}")
        except ConfigInvalid as invalid:
            wrong.append(f"{row.field}: refused: {'; '.join(map(str, invalid.errors))}")
    assert not wrong, "\n".join(wrong)


@ALL
def test_a_valid_value_arrives(section: dict[str, Any], folder: Path) -> None:
    def check(row: Row) -> str:
        found = parsed(with_value(row, row.value), folder)
        if row.arrives == "nothing":
            return ""
        if row.arrives in ("dropped", "note"):
            return "" if any(row.field in note for note in found.notes) else f"no word about it in {found.notes}"
        if row.arrives == "secret":
            service = found.settings.training_service
            secrets = dict(service.secrets) if service is not None else {}
            storage = found.settings.shared_storage
            if storage is not None and storage.storage_account_key is not None:
                secrets["storage"] = storage.storage_account_key.get_secret_value()
            return "" if row.value in secrets.values() else f"not among the secrets {list(secrets)}"
        place, key = place_of(resolved_document(found.settings), row.arrives)
        expected = row.expected
        if isinstance(expected, str):
            expected = expected.replace("<folder>", str(folder))
        got = place.get(key, "missing") if isinstance(place, dict) else place[key]
        expected = list(expected) if isinstance(expected, list) else expected
        return "" if got == expected or row.arrives == "searchSpace" and got == SPACE else f"{got!r}, not {expected!r}"

    check_all(section, check)


@pytest.fixture(autouse=True)
def no_cluster_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DLWS_VC_NAME", "DLWS_USER_EMAIL", "DLTS_JOB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@EACH
def test_one_that_is_required_is_missed_by_its_name(section: dict[str, Any], folder: Path) -> None:
    def check(row: Row) -> str:
        config = copy.deepcopy(row.base)
        place, key = place_of(config, row.field, make=True)
        place.pop(key, None) if isinstance(place, dict) else None
        found = errors(config, folder)
        needed = row.required.removeprefix("yes: ") if row.required != "yes" else row.field
        missed = [error for error in found if f"{dotted(error.field)}.".startswith(f"{needed}.")
                  or row.field.split(".")[-1] in error.message]
        if row.required.startswith("yes"):
            return "" if missed else f"not missed: {[str(error) for error in found]}"
        return "" if not found else f"missed, and it is not required: {[str(error) for error in found]}"

    check_all(section, check)


@EACH
def test_a_wrong_type_is_named_with_its_line_and_column(section: dict[str, Any], folder: Path) -> None:
    answers_wrong_types(section, folder, WRONG)


@pytest.mark.slow
@EACH
def test_other_wrong_types_are_named_with_their_line_and_column(section: dict[str, Any], folder: Path) -> None:
    answers_wrong_types(section, folder, ALSO_WRONG)


def answers_wrong_types(section: dict[str, Any], folder: Path, wrong: dict[str, list[Any]]) -> None:
    def check(row: Row) -> str:
        for value in wrong.get(row.kind, []):
            config = with_value(row, value)
            text = json.dumps(config, indent=1)
            lines = text.splitlines()
            about = [error for error in errors(text, folder)
                     if dotted(error.field) == row.field or dotted(error.field).startswith(f"{row.field}.")]
            key = row.field.rpartition(".")[2]
            placed = [error for error in about if error.line and error.column and (
                f'"{key}":' in lines[error.line - 1] or MARK in lines[error.line - 1])]
            if not placed:
                return f"{value!r} was answered with {[str(error) for error in about]}"
        return ""

    check_all(section, check)
