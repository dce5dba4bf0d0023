"""Real keeper processes in a folder of a test."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.forking import keepers as forked_keepers
from tests.forking.forker import ForkedProcess
from trialkeeper import contract, machine
from trialkeeper.process_tree import MARK_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
NO_OLD_PYTHON = "no Python %s was found, on PATH or in pyenv"


def wait_until(condition: Callable[[], Any], seconds: float = 60.0, what: str = "the condition") -> Any:
    """What ``condition`` returns as soon as it is true."""
    until = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < until, f"{what} was not seen within {seconds} s"
        time.sleep(0.01)
    return result


def old_python(version: str = "3.8") -> str | None:
    """An interpreter of this version, None where the machine has none."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = sorted(pyenv.glob(f"versions/{version}.*/bin/python3"))
    return str(candidates[0]) if candidates else None


class KeeperRun:
    """One attempt's folder, and keepers started in it."""

    def __init__(self, folder: Path, server: ScriptedKeeperServer | None, python: str = sys.executable) -> None:
        self.folder, self.server, self.python = folder, server, python
        self.processes: list[subprocess.Popen | ForkedProcess] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.variables: dict[str, str] = {}
        #: What a keeper's process does first: Python text that changes the module ``keeper``.
        self.before = ""
        self.limits: dict[str, Any] = {"grace_period": 1.0, "report_interval": 0.3, "claim_timeout": 2.0,
                                       "give_up_after": 60.0}

    def job(self, command: str, **fields: Any) -> dict[str, Any]:
        name = self.server.job_name if self.server else "trialaaaaaaa"
        parameters = {"parameter_id": 7, "parameter_source": "algorithm", "parameters": {"x": 1}, "parameter_index": 0}
        return {"version": 1, "job_name": name, "trial_job_id": name, "experiment_id": "expaaaaaaaaa",
                "sequence_id": 3, "command": command,
                "parameters": [{"index": 0, "text": json.dumps(parameters)}],
                **fields, "limits": {**self.limits, **fields.get("limits", {})}}

    def python_command(self, code: str) -> str:
        return f"{shlex.quote(self.python)} -c {shlex.quote(code)}"

    def start(self, command: str | None = None, variables: dict[str, str] | None = None,
              **fields: Any) -> subprocess.Popen | ForkedProcess:
        """Start a keeper, or fork it where it is to be as any other; with a command the folder gets its job first."""
        if command is not None:
            (self.folder / contract.JOB_FILE).write_text(json.dumps(self.job(command, **fields)))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NNI_")}
        environment.update({"PYTHONPATH": str(ROOT), contract.ENV_FOLDER: str(self.folder),
                            contract.ENV_JOB: self.server.job_name if self.server else "trialaaaaaaa"})
        if self.server is not None:
            environment.update({contract.ENV_URLS: self.server.url, contract.ENV_TOKEN: self.server.token})
        environment.update({**self.variables, **(variables or {})})
        process: subprocess.Popen | ForkedProcess
        if not self.before and forked_keepers.can_fork(self.python, environment):
            process = forked_keepers.start(["run"], env=environment, cwd=self.folder, stderr=subprocess.PIPE,
                                           start_new_session=False)
        else:
            program = ["-m", "trialkeeper", "run"] if not self.before else \
                ["-c", f"from trialkeeper import __main__, keeper\n{self.before}\n"
                       "raise SystemExit(__main__.main(['run']))"]
            process = subprocess.Popen([self.python, *program], env=environment, cwd=self.folder,
                                       stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def run(self, command: str | None = None, seconds: float = 60.0, **fields: Any) -> int:
        """Start a keeper and wait for its exit status."""
        return self.start(command, **fields).wait(seconds)

    def read(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / name).read_text())

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def log(self) -> str:
        path = self.folder / contract.KEEPER_LOG_FILE
        return path.read_text() if path.exists() else ""

    def journal_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / contract.JOURNAL_FILE).read_text().splitlines()]

    def trial_processes(self) -> list[int]:
        """Processes that carry this attempt's mark, whatever else they did."""
        try:
            mark = f"{MARK_VARIABLE}={self.journal_lines()[0]['journal_id']}".encode()
        except (OSError, IndexError, ValueError):  # ValueError: a test has damaged it
            return []
        found = []
        for pid, _, _, _ in machine.process_table():
            try:
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(pid)
            except OSError:
                continue
        return found

    def clean_up(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
        for pid in self.trial_processes():
            os.kill(pid, signal.SIGKILL)
