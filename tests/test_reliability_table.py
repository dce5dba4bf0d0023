"""The kill table of docs/reliability.md: what a run of some rows may change in it, and what it may not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.kill_table import reliability_table
from tests.end_to_end.kill_table.reliability_table import rows_of, written_into

REPOSITORY = Path(__file__).parents[1]
PAGE = """# A page

<!-- kill table: begin -->
3 rows, all of one run.

| what happens | runs | nothing lost, doubled or left |
|---|---:|---:|
| a keeper dies | 5 | 5 |
| a server dies | 5 | 4 |
| a test that is gone | 5 | 5 |
<!-- kill table: end -->

The end.
"""
TESTS = '''
import pytest

@pytest.mark.kill_table("a keeper dies")
@pytest.mark.parametrize("number", [1, 2])
def test_a_keeper_dies(number):
    assert number == 1

@pytest.mark.kill_table("a server dies")
def test_a_server_dies():
    pass

@pytest.mark.kill_table("a disk dies")
def test_a_disk_dies():
    pytest.skip("no disk")
'''


def test_a_run_of_some_rows_replaces_only_those() -> None:
    page = written_into(PAGE, {"a server dies": (1, 1), "a new row": (2, 2)}, all_rows=False)
    assert rows_of(page) == {"a keeper dies": (5, 5), "a new row": (2, 2), "a server dies": (1, 1),
                             "a test that is gone": (5, 5)}
    assert "4 rows, of more than one run; the last run was of 2 of them." in page
    assert page.startswith("# A page\n")
    assert page.endswith("-->\n\nThe end.\n")


def test_a_run_of_all_rows_removes_those_whose_tests_are_gone() -> None:
    page = written_into(PAGE, {"a server dies": (5, 5), "a keeper dies": (4, 5)}, all_rows=True)
    assert rows_of(page) == {"a keeper dies": (4, 5), "a server dies": (5, 5)}
    assert "\n2 rows, all of one run.\n" in page


@pytest.mark.parametrize("all_rows", [True, False])
def test_a_row_that_was_skipped_keeps_what_was_found_before(all_rows: bool) -> None:
    page = written_into(PAGE, {"a server dies": (0, 0), "a keeper dies": (1, 1), "a disk dies": (0, 0)},
                        all_rows=all_rows)
    assert rows_of(page)["a server dies"] == (4, 5)
    assert "| a disk dies | not run |  |" in page
    assert "of more than one run; the last run was of 1 of them." in page
    assert written_into(page, {}, all_rows=False).count("| a disk dies | not run |  |") == 1


def test_a_page_without_a_place_for_the_table_is_left_as_it_is() -> None:
    with pytest.raises(ValueError, match="no place for the kill table"):
        written_into("# A page\n", {"a server dies": (1, 1)}, all_rows=True)


def run_rows(tests: Path, *arguments: str) -> dict[str, tuple[int, int]]:
    """Run tests with the plugin as it is, its folder of all tests aside; the rows of the page afterwards."""
    page = tests.parent / "page.md"
    page.write_text(PAGE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "DJANGO_"))}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{tests.parent}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "plugin", "-m", "kill_table", "--kill-table-report", "page.md",
         *arguments], cwd=tests.parent, env=environment, text=True, capture_output=True, timeout=100, check=False)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    return rows_of(page.read_text())


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder of tests that are rows, where the plugin takes it for all tests."""
    tests = tmp_path / "rows"
    tests.mkdir()
    (tests / "test_rows.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    kill_table(row): a row\n")
    (tmp_path / "plugin.py").write_text(
        f"from pathlib import Path\n"
        f"from {reliability_table.__name__} import *\n"
        f"import {reliability_table.__name__} as it\n"
        f"it.TESTS = Path({str(tests)!r})\n")
    return tests


def test_pytest_with_the_arguments_of_make_chaos_writes_the_table_anew(rows: Path) -> None:
    assert run_rows(rows, "rows") == {"a keeper dies": (1, 2), "a server dies": (1, 1), "a disk dies": (0, 0)}


@pytest.mark.parametrize("arguments", [
    pytest.param(("rows/test_rows.py::test_a_server_dies",), id="one test"),
    pytest.param(("rows", "-k", "server"), id="a word"),
    pytest.param(("rows", "--deselect", "rows/test_rows.py::test_a_keeper_dies", "-k", "server"), id="without one"),
])
def test_pytest_with_other_arguments_leaves_the_rows_that_it_did_not_run(rows: Path, arguments: tuple[str]) -> None:
    found = run_rows(rows, *arguments)
    assert found == {"a keeper dies": (5, 5), "a server dies": (1, 1), "a test that is gone": (5, 5)}


def test_a_run_that_was_ended_early_leaves_the_rows_that_it_did_not_run(rows: Path) -> None:
    (rows / "test_rows.py").write_text(TESTS.replace("    pass\n", "    raise KeyboardInterrupt\n"))
    assert run_rows(rows, "rows") == {"a keeper dies": (1, 2), "a server dies": (4, 5), "a test that is gone": (5, 5)}


def test_make_chaos_asks_for_all_rows() -> None:
    [line] = [line for line in (REPOSITORY / "Makefile").read_text().splitlines() if "--kill-table-report" in line]
    assert " -m kill_table " in line
    assert line.endswith(" tests")
    assert reliability_table.TESTS == REPOSITORY / "tests"
