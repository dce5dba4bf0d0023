"""Values of people stand in sentences as JSON writes them, never as Python does."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

from trainingservice.words.shown_value import shown

ROOT = Path(__file__).parents[1]
#: Files in which Python's form of a value is right: who reads it wrote Python, or a program.
PYTHONS_FORM = {
    "nniweb/annotation/parameters.py": "options in Python source: 1 and True are different texts there",
    "nniweb/tuning/custom_algorithms/nni/utils.py": "said to the author of a tuner's code",
    "nniweb/tuning/custom_algorithms/own_assessor.py": "said to the author of an assessor, of what it returned",
    "nniweb/tuning/custom_algorithms/plain_parameters.py": "said to the author of a tuner, of an object that it made",
    "nniweb/worker/rounds/round_experiments.py": "texts in a statement of SQL",
    "nniweb/__init__.py": "an AttributeError as Python has it",
    "nniweb/asgi.py": "an error for the author of the ASGI server",
    "nniweb/client/experiment.py": "__repr__",
    "trainingservice/keeper/agent_client.py": "the protocol between our own programs",
    "trainingservice/moved_names.py": "an AttributeError as Python has it",
}


def reprs_in(file: Path) -> list[int]:
    """Lines with ``!r``, ``%r`` or ``repr(``."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        is_conversion = isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "repr"
        is_percent = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(
            node.left, ast.Constant) and "%r" in str(node.left.value)
        if is_conversion or is_call or is_percent:
            found.append(node.lineno)
    return found


def test_no_sentence_of_the_source_has_a_value_in_pythons_form() -> None:
    files = [file for folder in ("nniweb", "trainingservice") for file in (ROOT / folder).rglob("*.py")
             if "trainingservice/testing/" not in file.as_posix()]  # assertions for authors of platforms
    found = {file.relative_to(ROOT).as_posix(): lines for file in files if (lines := reprs_in(file))}
    assert len(files) > 500
    assert {name: lines for name, lines in found.items() if name not in PYTHONS_FORM} == {}
    assert set(PYTHONS_FORM) == set(found), "an exception that is none any more"


@pytest.mark.parametrize(("value", "text"), [
    ("a", '"a"'), ('say "a"', r'"say \"a\""'), ("it's", '"it\'s"'), ("", '""'), ("é", '"é"'), (None, "null"),
    (True, "true"), (3, "3"), (0.5, "0.5"), (b"raw\xff", '"raw\ufffd"'), (["x"], "a list"), (("x",), "a list"),
    ({"x"}, "a list"), ({"x": 1}, "a group of fields"), (Path("/x"), '"/x"'),
    (object(), '"a value of the type object"'),
    (int, '"a value of the type type"'), ("a\nb\x00", r'"a\nb\u0000"'), ("\ud800", r'"\ud800"'),
    ("\u202egnp.exe", r'"\u202egnp.exe"'), ("x" * 100, f'"{"x" * 55}..."')])
def test_a_value_is_shown_as_json_has_it_short_and_on_one_line(value: object, text: str) -> None:
    assert shown(value) == text
    assert len(text) <= 60
    text.encode()  # every database takes it


def test_every_character_can_be_shown() -> None:
    for character in (*map(chr, range(0x3000)), "\ud800", "\udfff", "\U0001f600"):
        text = shown(character)
        assert text.isprintable()
        text.encode()
    assert re.fullmatch('"[^"]*"', shown(string.ascii_letters))
