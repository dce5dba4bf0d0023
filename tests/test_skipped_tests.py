"""Skipped tests are shown by reason, and an unexpected reason fails the run (tests/conftest.py, .ci/run)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = '''
import pytest

def test_that_runs():
    assert True

@pytest.mark.parametrize("number", [1, 2])
def test_that_wants_chromium(number):
    pytest.skip("no chromium: apt-get install chromium")

@pytest.mark.skip(reason="Python 3.8 was not found at /opt/python3.8")
def test_that_wants_an_old_python():
    raise AssertionError
'''
WHOLE_FILE = '''
import pytest
pytest.skip("redis is away", allow_module_level=True)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole_file.py").write_text(WHOLE_FILE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run_tests(folder: Path, *options: str) -> tuple[int, list[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "DJANGO_"))}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])  # conftest.py names a plugin of this repository
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "xdist", *options], cwd=folder, text=True,
                          env=environment, capture_output=True, timeout=600, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("workers", [pytest.param([], id="alone"),
                                     pytest.param(["-n", "2"], id="two workers", marks=pytest.mark.slow)])
def test_skips_are_counted_by_reason(folder: Path, workers: list[str]) -> None:
    status, lines = run_tests(folder, *workers)
    assert status == 0
    assert "   2  no chromium: apt-get install chromium" in lines
    assert "   1  Python 3.8 was not found at /opt/python3.8" in lines
    assert "   1  redis is away" in lines


def test_a_reason_that_is_not_listed_fails_the_run(folder: Path) -> None:
    (folder / "allowed.txt").write_text("# why\nno chromium: apt-get install chromium\nredis is away\n")
    status, lines = run_tests(folder, "--allowed-skips=allowed.txt")
    assert status == 1
    heading = next(number for number, line in enumerate(lines) if "not allowed" in line)
    assert lines[heading + 2].strip() == "Python 3.8 was not found at /opt/python3.8"
    assert re.search(r"1 passed, 4 skipped", lines[-1])


@pytest.mark.slow
def test_listed_reasons_pass_and_a_star_stands_for_any_text(folder: Path) -> None:
    (folder / "allowed.txt").write_text("no chromium: *\nPython 3.8 was not found*\nredis is away\n")
    status, lines = run_tests(folder, "--allowed-skips=allowed.txt", "-n", "2")
    assert status == 0
    assert re.search(r"1 passed, \d skipped", lines[-1])
