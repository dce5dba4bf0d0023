"""The rewritten file has the lines of the file: tracebacks name the line that the person wrote."""

import ast
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nniweb.annotation.annotated_code import carried_out, run

LONG = '''
import nni
"""
@nni is only mentioned.
"""
def fails(x):
    return 1 / x
"""@nni.variable(nni.choice(1,
                            2,
                            3),
                 name=x)"""
x = (4 +
     5 *
     6); y = 7
if True: "@nni.report_intermediate_result(y)"; z = [
    1]
"""@nni.function_choice(min(
                            x, 2), max(x, 2),
                        name=min)"""
w = min(x,

        2)
v = nni.choice({
    "a": lambda: 1,
    "b": lambda: fails(0)},
    name="v")
v()
'''
GIVEN = {"trial/x/choice": 3, "trial/min/function_choice": "max(x, 2)", "trial/v/choice": "b"}


def lines_of_names(code: str) -> dict[str, list[int]]:
    """Name of a variable or function -> lines it stands in."""
    found: dict[str, list[int]] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            found.setdefault(node.id, []).append(node.lineno)
    return {name: sorted(lines) for name, lines in found.items()}


def test_a_traceback_through_lines_below_and_within_annotated_ones_has_their_numbers() -> None:
    with pytest.raises(ZeroDivisionError) as failed:
        run(LONG, GIVEN)
    lines = [frame.lineno for frame in traceback.extract_tb(failed.value.__traceback__) if frame.filename == "<trial>"]
    texts = LONG.split("\n")
    assert [texts[(line or 0) - 1].strip() for line in lines] == ["v()", '"b": lambda: fails(0)},', "return 1 / x"]


def test_an_error_in_a_choice_has_the_line_of_its_statement() -> None:
    with pytest.raises(KeyError) as failed:
        run(LONG, {**GIVEN, "trial/min/function_choice": "other"})
    [frame] = [frame for frame in traceback.extract_tb(failed.value.__traceback__) if frame.filename == "<trial>"]
    assert LONG.split("\n")[(frame.lineno or 0) - 1] == "w = min(x,"


@pytest.mark.parametrize(("encoding", "end"), [
    ("utf-8", "\n"), ("utf-8", "\r\n"), ("utf-8", "\r"), ("utf-8-sig", "\n"), ("utf-8-sig", "\r\n"),
    ("latin-1", "\n"), ("latin-1", "\r\n")])
def test_line_ends_encodings_and_what_stands_beside_annotations_stay(encoding: str, end: str) -> None:
    head = ["#!/usr/bin/env python"] + (["# -*- coding: latin-1 -*-"] if encoding == "latin-1" else [])
    text = end.join([
        *head, "ä = 'ü'; '@nni.get_next_parameter()'; \"@nni.report_intermediate_result('ö' + ä)\"; b = 'ß'  # é", "",
        '"""@nni.variable(nni.choice("ä", "ÿ"),', '   name=größe)"""', "größe = 1  # ñ"])
    code = text.encode(encoding)
    source = carried_out(code).source
    assert source is not None
    new = source.decode(encoding)
    assert new.count(end) == text.count(end)
    assert (source[:3] == b"\xef\xbb\xbf") == (encoding == "utf-8-sig")
    lines = new.split(end)
    assert lines[:len(head)] == head
    assert lines[len(head)].endswith("; b = 'ß'  # é")
    assert lines[-1].endswith("  # ñ")
    names, nni = run(code, {"trial/größe/choice": "ÿ"})
    assert (names["größe"], nni.reports) == ("ÿ", [("intermediate", "öü")])


def test_a_character_that_the_files_encoding_does_not_have_is_escaped() -> None:
    code = "# coding: ascii\n'''@nni.variable(nni.choice('\\u0436', '\\U0001f600'), name=x)'''\nx = 1\n"
    assert carried_out(code).parameters.space["trial/x/choice"]["_value"] == ["ж", "\U0001f600"]
    assert run(code, {"trial/x/choice": "ж"})[0]["x"] == "ж"
    assert run(code, {"trial/x/choice": "\U0001f600"})[0]["x"] == "\U0001f600"


def test_form_feeds_and_separators_that_are_no_line_ends_move_nothing() -> None:
    code = 'x = "\u2028\x1c"; "@nni.get_next_parameter()"\n\x0c\n' \
           'y = "\x85"; "@nni.report_intermediate_result(y)"; z = 3\n' \
           '"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 1\n'
    names, nni = run(code, {"trial/x/choice": 2})
    assert (names["x"], names["z"], nni.reports) == (2, 3, [("intermediate", "\x85")])


PIECES = st.sampled_from([
    '"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 5\n',
    "'''@nni.variable(nni.uniform(0,\n  1), name=u)'''\nu = [1,\n 2,\n 3]\n",
    '"@nni.function_choice(f(1), g(1), name=f)"; v = f(1) + f(\n1)\n',
    '"""@nni.report_intermediate_result(\nx\n)"""\n', "if x:\n    '@nni.report_final_result(x)'\n",
    "y = x + (2\n  + 3)  # @nni.report_final_result(x)\n", '"""text\nof lines"""\n', "\n", "# ключ\n",
    "z = 'ключ'; \"@nni.get_next_parameter()\"; marked = 1\n",
    "h = nni.choice({\n  1: x,\n  2: nni.choice({3: y},\n   name='i')}, name='h')\n"])


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=12))
def test_every_name_that_stays_stays_in_its_line(pieces: list[str]) -> None:
    code = "".join(pieces)
    source = carried_out(code).source
    if source is None:
        assert "@nni" not in code.replace("# @nni", "")
        return
    new = source.decode()
    assert new.count("\n") == code.count("\n")
    ast.parse(new, feature_version=(3, 6))
    before, after = lines_of_names(code), lines_of_names(new)
    for name in ("x", "y", "z", "u", "v", "h", "marked"):
        assert set(before.get(name, [])) <= set(after.get(name, [])), name
