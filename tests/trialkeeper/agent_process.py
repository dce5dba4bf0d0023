"""A real agent on real pipes."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

from tests.forking import keepers as forked_keepers
from tests.forking.forker import ForkedProcess
from tests.trialkeeper.keeper_run import ROOT, KeeperRun


class AgentProcess:
    """An agent and what it said."""

    def __init__(self, program: tuple[str, ...] | None = None, **variables: str) -> None:
        """``program``: arguments for Python, of another program than ours as it is. ``variables``: of its environment.
        """
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        self.process: subprocess.Popen | ForkedProcess
        if program is None and forked_keepers.can_fork(sys.executable, environment):
            self.process = forked_keepers.start(["agent"], cwd=Path.cwd(), env=environment, stdin=subprocess.PIPE,
                                                stdout=subprocess.PIPE, start_new_session=False)
        else:
            self.process = subprocess.Popen([sys.executable, *(program or ("-m", "trialkeeper", "agent"))],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.answers: queue.Queue = queue.Queue()
        self.events: list[dict] = []  #: of attempts
        self.loads: list[dict] = []
        self.closed = threading.Event()
        self.hello = json.loads(self.process.stdout.readline())
        threading.Thread(target=self._read, daemon=True).start()
        self._number = 0

    def _read(self) -> None:
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("event") == "load":
                self.loads.append(message["load"])
            else:
                (self.events.append if "event" in message else self.answers.put)(message)
        self.closed.set()

    def ask(self, verb: str, **fields) -> dict:
        self._number += 1
        self.process.stdin.write(json.dumps({"id": self._number, "do": verb, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.answers.get(timeout=90)
        assert answer["id"] == self._number
        return answer

    def start(self, run: KeeperRun, command: str, **fields) -> dict:
        access = {"urls": [run.server.url], "token": run.server.token, "url_file": None, "ca_file": None}
        answer = self.ask("start", folder=str(run.folder), job=run.job(command, **fields), access=access)
        assert answer["ok"], answer
        return answer["state"]

    def state(self, folder: Path) -> dict:
        return self.ask("state", folders=[str(folder)])["states"][str(folder)]

    def states_told(self, folder: Path) -> list[str]:
        return [event["state"]["state"] for event in self.events if event["folder"] == str(folder)]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.closed.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()
