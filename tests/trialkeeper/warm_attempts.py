"""Attempts of one experiment, one after the other or several at a time, on one real agent; no server is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.trialkeeper.agent_process import AgentProcess
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import contract


class WarmAttempts:
    """``code`` is the folder of the script ``trial.py``, in which all of them run."""

    def __init__(self, agent: AgentProcess, folder: Path, script: str = "") -> None:
        self.agent, self.folder = agent, folder
        self.code = folder / "code"
        self.code.mkdir()
        self.write(script)
        self.runs: list[KeeperRun] = []
        #: Of all jobs.
        self.fields: dict[str, Any] = {}

    def write(self, script: str, name: str = "trial.py") -> None:
        (self.code / name).write_text(script)

    def start(self, command: str = f"{sys.executable} trial.py", warm: bool | list[str] = True, **fields: Any
              ) -> KeeperRun:
        run = KeeperRun(self.folder / f"attempt{len(self.runs)}", None)
        run.folder.rmdir()
        self.runs.append(run)
        job = run.job(command, code={"folder": str(self.code)}, warm_start=warm, **{**self.fields, **fields})
        answer = self.agent.ask("start", folder=str(run.folder), job=job, access={"urls": []})
        assert answer["ok"], answer
        return run

    def run(self, command: str = f"{sys.executable} trial.py", warm: bool | list[str] = True, **fields: Any
            ) -> KeeperRun:
        """Start one and wait for its end."""
        return self.ended(self.start(command, warm, **fields))

    def ended(self, run: KeeperRun) -> KeeperRun:
        wait_until(lambda: run.exists(contract.EXIT_FILE), what="the trial's end")
        wait_until(lambda: self.agent.state(run.folder)["keeper_pid"] is None, what="the keeper's end")
        return run

    def until_warm(self, **fields: Any) -> KeeperRun:
        """Run attempts until one was forked by a parent that has imported what it learned or was told."""
        def is_warm() -> KeeperRun | None:
            run = self.run(**fields)
            start = how_started(run)
            assert start.get("warm"), start
            return run if not start["learns"] else None
        return wait_until(is_warm, what="a warm trial")

    def clean_up(self) -> None:
        for run in self.runs:
            run.clean_up()


def how_started(run: KeeperRun) -> dict[str, Any]:
    """What the attempt's end tells of its start."""
    return run.read(contract.EXIT_FILE).get("warm_start", {})


def stdout(run: KeeperRun) -> str:
    return (run.folder / contract.STDOUT_FILE).read_text()


def stderr(run: KeeperRun) -> str:
    return (run.folder / contract.STDERR_FILE).read_text()
