"""What messages tell a person to type is what works in a checkout, whichever Python they began with."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHOW = "from nniweb.storage.own_files import COMMAND, START; print(COMMAND); print(START)"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with an environment of its own, as ``make run`` makes it, and no packages in it."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "nniweb", folder / "nniweb", ignore=shutil.ignore_patterns("__pycache__", "bundled"))
    shutil.copy(ROOT / "manage.py", folder)
    venv.create(folder / ".venv", symlinks=True)
    return folder


def typed(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, timeout=60)


def test_in_the_environment_of_make_run_commands_begin_with_its_python(checkout: Path) -> None:
    said = typed(checkout, ".venv/bin/python", "-c", SHOW).stdout.splitlines()
    assert said == [".venv/bin/python manage.py", "make run, or .venv/bin/python manage.py serve"]


def test_in_another_environment_commands_begin_with_python(checkout: Path) -> None:
    said = typed(checkout, sys.executable, "-c", SHOW).stdout.splitlines()
    assert said == ["python manage.py", "make run, or python manage.py serve"]


def test_a_python_without_the_packages_is_told_which_one_has_them(checkout: Path) -> None:
    done = typed(checkout, ".venv/bin/python", "manage.py", "config", "check", "config.yml")
    assert done.returncode == 1
    assert "needs django, which is not installed" in done.stderr
    assert "make run installs it in .venv" in done.stderr
    assert ".venv/bin/python manage.py config" in done.stderr
    assert "pip install nniweb" not in done.stderr
