"""Debian packages are installed by make where it may; where not, it says so, and it never takes for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import debian_packages

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Programs of a Debian on which only git is installed; returns the file that notes what apt-get was told."""
    noted = tmp_path / "calls"
    programs = {"dpkg-query": 'case "$3" in git) echo -n installed;; *) exit 1;; esac',
                "apt-get": f'echo "$@" >> "{noted}"; [ ! -e "{tmp_path}/slow" ] || exec sleep 60; '
                           'case "$*" in *unheard-of*) exit 100;; esac',
                "sudo": "exit 1"}
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    (tmp_path / "list").write_text("git  # a reason\nchromium  # another\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return noted


@pytest.fixture
def said():
    return []


def test_what_is_missing_is_installed_where_that_is_allowed(calls, said, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    debian_packages.install(tmp_path / "list", said.append)
    update, install = calls.read_text().splitlines()
    assert update.endswith(" update")
    assert install.endswith(" install --yes --no-install-recommends chromium")
    assert said == ["Installing Debian packages: chromium ..."]


def test_without_the_right_the_command_is_named_and_nothing_is_called(calls, said, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    debian_packages.install(tmp_path / "list", said.append)
    assert not calls.exists()
    assert "sudo apt-get install chromium" in said[0]


def test_a_package_that_this_release_does_not_have_is_no_hindrance_to_the_others(calls, said, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "list").write_text("unheard-of\nchromium\n")
    debian_packages.install(tmp_path / "list", said.append)
    assert [line.split()[-1] for line in calls.read_text().splitlines()] == [
        "update", "chromium", "unheard-of", "chromium"]
    assert "Tests that need unheard-of are skipped" in said[1]


def test_a_package_manager_that_hangs_is_given_up(calls, said, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(debian_packages, "TIME_LIMIT", 0.2)
    (tmp_path / "slow").touch()
    debian_packages.install(tmp_path / "list", said.append)
    assert len(calls.read_text().splitlines()) == 1
    assert "apt-get failed" in said[1]
    assert "Tests that need chromium are skipped" in said[1]


@pytest.mark.parametrize(("target", "installed"), [("test", False), ("test-all", True)])
def test_what_only_slow_tests_use_is_installed_by_test_all_alone(target, installed):
    commands = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("prepare.py slow-tests" in commands) == installed


def test_no_package_is_in_both_lists_and_each_has_its_reason():
    lists = [ROOT / "requirements" / f"{name}.txt" for name in ("debian", "debian-slow")]
    always, slow = (set(debian_packages.wanted(path)) for path in lists)
    assert {"git", "slurmctld"} <= always
    assert {"gridengine-master", "slurmdbd"} <= slow
    assert not always & slow
    assert all("  # " in line or line.startswith(("# ", "git ")) for path in lists
               for line in path.read_text().splitlines())
