"""Daemons of a scheduler that a test starts, below one folder, and ends with it. Their output lies in ``log``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: Debian's daemons lie in folders that are not on everybody's PATH.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
#: Seconds for whatever is waited for.
PATIENCE = 60.0


def are_there(*programs: str) -> bool:
    return all(shutil.which(program, path=PATH) is not None for program in programs)


class Daemons:
    """``run`` starts one, ``end`` ends one, ``end_all`` ends what is left, the youngest first."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.log = folder / "log"
        self.log.mkdir()
        self.environment = {"PATH": PATH, "HOME": os.environ.get("HOME", "/root"), **environment}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, program: str, *arguments: str, key: str = "", inside: Sequence[str] = (), **more: Any) -> None:
        """Start a program that stays in the foreground. ``key``: its name here, where that is not the program's;
        ``inside``: a command that becomes the program somewhere else, such as in a namespace."""
        path = shutil.which(program, path=PATH)
        assert path is not None, f"there is no {program}"
        with (self.log / f"{key or Path(program).name}.out").open("ab") as log:
            self._processes[key or Path(program).name] = subprocess.Popen(
                [*inside, path, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd="/", **more)

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Harmless where there is none of that name. What does not end in time is killed."""
        process = self._processes.pop(name, None)
        if process is not None:
            process.send_signal(number)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def end_all(self) -> None:
        for name in reversed(list(self._processes)):
            self.end(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        self._processes[name].send_signal(number)

    def wait(self, what: str, condition: Callable[[], Any]) -> None:
        """Raises AssertionError with all logs where it does not come true, or a daemon ends meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"not true: {what} ({', '.join(ended)} ended)\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self.log.iterdir()))

    def command(self, *command: str, check: bool = True) -> str:
        """What a program printed, in the environment of the daemons."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False,
                              timeout=PATIENCE)
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout
