"""A connection that is a command: what ProxyCommand of ``~/.ssh/config`` names, with its input and output as the wire.

Paramiko's own ProxyCommand does not notice that its command has ended, and leaves it behind; a pair of
sockets does without that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections import deque

from trainingservice.secrets_in_use import ServiceThread

#: Seconds that a command whose output has ended gets to end, too.
_END_PATIENCE = 1.0


class CommandSocket(socket.socket):
    """The wire to a command that ``/bin/sh`` runs. ``close`` ends the command."""

    def __init__(self, command: str) -> None:
        here, there = socket.socketpair()
        super().__init__(fileno=here.detach())
        with there:
            self._process = subprocess.Popen(["/bin/sh", "-c", f"exec {command}"], stdin=there.fileno(),
                                             stdout=there.fileno(), stderr=subprocess.PIPE,
                                             start_new_session=True)
        self._said: deque[str] = deque(maxlen=1)
        self._watcher = ServiceThread(target=self._watch, daemon=True, name="ProxyCommand")
        try:
            self._watcher.start()
        except BaseException:  # the machine has no thread to spare: the connection is tried again
            self._process.kill()
            self._process.wait()
            super().close()
            raise

    def _watch(self) -> None:
        """Keep the last line of its stderr, and take its exit status, so that nothing is left of it."""
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                if line.strip():
                    self._said.append(line.decode(errors="replace").strip()[-300:])
        self._process.wait()

    def why_it_ended(self) -> str:
        """A sentence; "" for a command that still runs."""
        self._watcher.join(_END_PATIENCE)
        if self._watcher.is_alive():
            return ""
        return f"it ended with status {self._process.returncode}{f' and said: {self._said[0]}' if self._said else ''}."

    def close(self) -> None:
        """End wire and command. May be repeated."""
        super().close()
        if self._watcher.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
