"""docs/security.md names tests; each of them exists and runs, and no promise is without one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE)))


@cache
def functions_of(file: str) -> dict[str, list[str]]:
    """Names of a file's functions, each with its decorators as they are written."""
    return {node.name: [ast.unparse(decorator) for decorator in node.decorator_list]
            for node in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("file", sorted({name.partition("::")[0] for name in NAMED}))
def test_every_test_that_is_named_exists_and_runs(file: str) -> None:
    named = [name.partition("::")[2] for name in NAMED if name.startswith(f"{file}::")]
    there = functions_of(file)
    assert [name for name in named if name not in there] == []
    assert [name for name in named if any("skip" in text or "xfail" in text for text in there[name])] == []


def test_every_promise_names_a_test() -> None:
    rows = [line for part in PAGE.split("| promise | shown by |\n|---|---|\n")[1:]
            for line in part.partition("\n\n")[0].splitlines()]
    assert len(rows) > 30
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+`", row)] == []


def test_no_name_of_a_test_is_written_in_another_way() -> None:
    """Or it would not be looked for."""
    assert len(re.findall(r"tests/[\w/.]+::", PAGE)) == len(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE))


def test_it_says_first_that_local_trials_are_code_on_the_server() -> None:
    first = PAGE.split("\n## ")[1]
    assert "A local trial is code on the server" in first
