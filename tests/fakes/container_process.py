"""A container as a double has it: a local process in a folder of its own, with whose end all that it started ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainingservice.testing.processes import end_processes, processes_of, since_boot


class ContainerProcess:
    """Runs from its construction on. ``ended(exit code)`` is called once, from a thread of its own."""

    def __init__(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str],
                 ended: Callable[[int], None], log: Path | None = None) -> None:
        """``arguments``: the program; ``folder``: its working directory, made if need be. Output goes to ``log``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.id = uuid.uuid4().hex
        self._began = since_boot()
        self._ended = ended
        self._grace: threading.Timer | None = None
        own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/local/bin:/usr/bin:/bin", "HOME": str(folder),
               "LANG": "C.UTF-8", "CONTAINER_ID": self.id}
        with open(log or folder / "container.log", "ab") as out:
            self._process = subprocess.Popen(list(arguments), cwd=folder, env={**own, **environment},
                                             stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                             start_new_session=True)
        threading.Thread(target=self._wait, name=f"container {self.id}", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    def stop(self, grace: float = 20.0) -> None:
        """TERM for its first process, KILL for all of it after the grace period. Returns at once."""
        if self._grace is None:
            self._grace = threading.Timer(grace, self.kill)
            self._grace.daemon = True
            self._grace.start()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """As when the node dies."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            self._process.send_signal(number)

    def _wait(self) -> None:
        code = self._process.wait()
        if self._grace is not None:
            self._grace.cancel()
        while left := processes_of([self.id], self._began):  # nothing of a container outlives its first process
            end_processes(left)
        self._ended(128 - code if code < 0 else code)
