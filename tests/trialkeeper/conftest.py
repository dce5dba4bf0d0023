"""Real keeper processes against a scripted server."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.agent_process import AgentProcess
from tests.trialkeeper.hiding_process import lives
from tests.trialkeeper.keeper_run import KeeperRun
from trialkeeper import contract, control_group, machine, trials_group


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


@pytest.fixture
def attempt(keeper: KeeperRun) -> Iterator[KeeperRun]:
    """A folder that no keeper has seen; whatever lives in it at the end of the test is ended."""
    os.rmdir(keeper.folder)
    yield keeper
    if keeper.exists(contract.KEEPER_FILE):
        pid = keeper.read(contract.KEEPER_FILE)["pid"]
        if machine.process_lives(pid, keeper.read(contract.KEEPER_FILE)["start_time"]):
            os.kill(pid, signal.SIGKILL)


# ended before the attempt's keepers are, so that it replaces none of them
@pytest.fixture
def agents(attempt: KeeperRun) -> Iterator[Callable[..., AgentProcess]]:
    agents: list[AgentProcess] = []

    def new(*program: tuple[str, ...]) -> AgentProcess:
        agents.append(AgentProcess(*program))
        return agents[-1]
    yield new
    for agent in agents:
        agent.kill()


@pytest.fixture
def agent(agents: Callable[..., AgentProcess]) -> AgentProcess:
    return agents()


@pytest.fixture
def clean_hider(keeper: KeeperRun) -> Iterator[None]:
    yield
    path = keeper.folder / contract.CODE_FOLDER / "hider.pid"
    if path.exists() and lives(int(path.read_text())):
        os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.fixture
def kernel_limits() -> None:
    """Skips where this machine's kernel cannot limit groups for this user."""
    if reason := control_group.why_not():
        pytest.skip(f"no control groups can be made here: {reason}")
    trials_group.prepare_trials_group()
    used = control_group.folder_of_trials() != control_group.own_folder()
    control_group.use_folder(None)
    if not used:
        pytest.skip("the kernel limits no memory of control groups here")
