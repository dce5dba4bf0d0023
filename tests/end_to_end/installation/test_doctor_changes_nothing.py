"""``manage.py doctor`` as a person gives it: with a server, without one, and where nothing was ever started."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import ROOT, RunningServer


def doctor(environment: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """The exit status, and what is told, by what it is about; several of one kind are joined."""
    done = subprocess.run([sys.executable, "manage.py", "doctor", "--json"], cwd=ROOT, env=environment, text=True,
                          capture_output=True, timeout=100, check=False)
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert document["exit_status"] == done.returncode
    return done.returncode, {found["about"]: found for found in document["findings"]}


def own_environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("NNIWEB_", "DJANGO_"))} | variables


def content_of(folder: Path) -> dict[str, tuple[int, str]]:
    return {str(path.relative_to(folder)): (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest()
                                            if path.is_file() else "") for path in folder.rglob("*")}


def test_a_wrong_setting_is_the_only_finding_and_nothing_is_made(tmp_path: Path) -> None:
    status, found = doctor(own_environment(NNIWEB_DATA=str(tmp_path / "data"), NNIWEB_PORT="eighty"))
    assert (status, list(found)) == (1, ["settings"])
    assert "NNIWEB_PORT must be a whole number" in found["settings"]["message"]
    assert "docs/settings.md" in found["settings"]["remedy"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_where_nothing_was_ever_started_it_says_so_and_makes_nothing(tmp_path: Path) -> None:
    status, found = doctor(own_environment(NNIWEB_DATA=str(tmp_path / "data")))
    assert status == 1
    assert "no server was started" in found["data folder"]["message"]
    assert found["secrets"]["verdict"] == found["workers"]["verdict"] == "unknown"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_it_works_with_the_server_and_without_and_changes_nothing(running_server: RunningServer) -> None:
    _, found = doctor(running_server.environment)
    assert running_server.url in found["server"]["message"]
    assert {found[about]["verdict"] for about in ("server", "database", "secrets", "keys", "clusters")} == {"well"}
    running_server.stop()
    (running_server.data_folder / "keys" / "secret_key").chmod(0o644)  # a start would leave it so; 0755 it would mend
    running_server.data_folder.chmod(0o755)
    before = content_of(running_server.data_folder)
    status, found = doctor(running_server.environment)
    assert content_of(running_server.data_folder) == before
    assert running_server.data_folder.stat().st_mode & 0o777 == 0o755
    assert (status, "chmod 600" in found["keys"]["remedy"]) == (3, True)
    assert "No server runs on this data folder" in found["server"]["message"]
