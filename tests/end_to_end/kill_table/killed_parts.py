"""The processes beside a server that a row of the kill table kills: keepers, the machine's agent, the tuner."""

from __future__ import annotations

import json
import os
import signal

from tests.end_to_end.kill_table.witnessed_experiment import parent_of
from tests.end_to_end.running_server import RunningServer
from trainingservice.testing.processes import RunningProcess
from trialkeeper import contract


def keepers_of(server: RunningServer, trial_id: str) -> list[int]:
    """The pids of the keepers of a trial's attempts, also of those that have ended, the first attempt's first."""
    return [int(json.loads(file.read_text())["pid"])
            for file in sorted(server.data_folder.rglob(f"{trial_id}/**/{contract.KEEPER_FILE}"))]


def keeper_of(server: RunningServer, trial_id: str) -> int:
    """The pid of the keeper of a trial that has one attempt."""
    [pid] = keepers_of(server, trial_id)
    return pid


def kill_tuner(server: RunningServer) -> None:
    """KILL to the process in which tuners run."""
    _kill(server.wait_until(lambda: [process for process in server.processes() if "tuner_process" in process.command
                                     and parent_of(process.pid) == server.pid], what="a tuner runs"))


def kill_agent(server: RunningServer) -> None:
    """KILL to the process that starts keepers on the server's machine. Keepers, its children, have its command line."""
    keepers = {int(json.loads(file.read_text())["pid"]) for file in server.data_folder.rglob(contract.KEEPER_FILE)}
    _kill(server.wait_until(lambda: [process for process in server.processes() if process.command.endswith(" agent")
                                     and process.pid not in keepers], what="an agent runs"))


def _kill(processes: list[RunningProcess]) -> None:
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
