"""``scripts/find-python.sh``: which Python is taken, and what a person is told where none will do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "find-python.sh"

#: Stands for a Python whose version is too old, or whose Debian package lacks venv: it answers like one.
TOO_OLD = '#!/bin/sh\ncase "$2" in *version_info*) exit 1;; esac\nexit 1\n'
WITHOUT_VENV = '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexec {python} "$@"\n'
COMPLETE = '#!/bin/sh\nexec {python} "$@"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder for PATH with nothing in it but what the script itself uses."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "id", "env"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def put(path: Path, name: str, program: str) -> None:
    (path / name).write_text(program.format(python=sys.executable))
    (path / name).chmod(0o755)


def find(path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *arguments], env={"PATH": str(path), **environment}, text=True,
                          capture_output=True, timeout=60, check=False)


def test_a_complete_python_is_named_by_its_full_path(path: Path) -> None:
    put(path, "python3", COMPLETE)
    found = find(path)
    assert found.returncode == 0
    assert os.path.samefile(found.stdout.strip(), sys.executable)


def test_an_old_python3_is_passed_over_for_a_newer_one(path: Path) -> None:
    put(path, "python3", TOO_OLD)
    put(path, "python3.12", COMPLETE)
    assert os.path.samefile(find(path).stdout.strip(), sys.executable)


def test_without_any_python_the_packages_to_install_are_named(path: Path) -> None:
    found = find(path)
    assert (found.returncode, found.stdout) == (1, "")
    assert "Python 3.11 or newer" in found.stderr
    assert "apt-get install python3 python3-venv" in found.stderr


def test_a_python_without_venv_is_told_its_debian_package(path: Path) -> None:
    put(path, "python3", WITHOUT_VENV)
    found = find(path)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert (found.returncode, found.stdout) == (1, "")
    assert f"sudo apt-get install {version}-venv" in found.stderr


def test_a_python_that_was_asked_for_and_is_too_old_is_refused_by_name(path: Path) -> None:
    put(path, "python3", COMPLETE)
    put(path, "old", TOO_OLD)
    found = find(path, PYTHON="old")
    assert found.returncode == 1
    assert "PYTHON=old is not a Python 3.11 or newer" in found.stderr


def test_only_with_install_is_the_debian_package_installed(path: Path) -> None:
    put(path, "python3", WITHOUT_VENV)
    # An apt-get that "installs" by making the Python complete, and an id that says who we are.
    put(path, "apt-get", f'#!/bin/sh\necho "$@" >> {path}/asked\ncase "$1" in install) '
                         f'printf \'#!/bin/sh\\nexec {sys.executable} "$@"\\n\' > {path}/python3;; esac\n')
    (path / "id").unlink()
    put(path, "id", "#!/bin/sh\necho 0\n")

    assert find(path).returncode == 1
    assert not (path / "asked").exists()

    found = find(path, "--install")
    assert found.returncode == 0, found.stderr
    assert os.path.samefile(found.stdout.strip(), sys.executable)
    assert "update" in (path / "asked").read_text()
    assert f"python3.{sys.version_info.minor}-venv" in (path / "asked").read_text()
