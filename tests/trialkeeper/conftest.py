"""Real keeper processes against a scripted server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import KeeperRun


@pytest.fixture
def server() -> Iterator[ScriptedKeeperServer]:
    server = ScriptedKeeperServer()
    yield server
    server.stop()


@pytest.fixture
def keeper(tmp_path: Path, server: ScriptedKeeperServer) -> Iterator[KeeperRun]:
    run = KeeperRun(tmp_path / "attempt", server)
    yield run
    run.clean_up()


@pytest.fixture
def lone_keeper(tmp_path: Path) -> Iterator[KeeperRun]:
    """A keeper that knows no server: its journal is collected as a file."""
    run = KeeperRun(tmp_path / "attempt", None)
    yield run
    run.clean_up()
