"""The output folder of a trial on a machine that is reached through SSH, or on what a login node has mounted."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from contextlib import suppress

from trainingservice.errors import TemporaryError
from trainingservice.files.output_folder import TIMEOUT, python_command
from trainingservice.ssh.connection import Connection
from trainingservice.submit_host.host import NOT_FOUND


def run_reader(connection: Connection, python: str, content: bytes) -> bytes:
    """What the reader of folders (``FolderElsewhere``) writes there. Raises MachineProblem, TemporaryError."""
    line = f"exec /bin/sh -c {shlex.quote(python_command(python))}"  # whichever shell the user has
    status, output, errors = connection.run_bytes(line, content, TIMEOUT)
    if status == NOT_FOUND:
        raise TemporaryError(f"{connection.name} has no {python} on its PATH, which lists the files there; install it "
                             "there, or name the files in keepFiles.")
    if status:
        said = " ".join(errors.strip()[-300:].split())
        raise TemporaryError(f"The files on {connection.name} cannot be listed (exit status {status}): "
                             f"{said or 'it said nothing'}")
    return output


class OneConnection:
    """A connection of its own that is made at its first use and kept until ``close``, with the Python found there."""

    def __init__(self, connect: Callable[[], tuple[Connection, str]]) -> None:
        """``connect`` raises MachineProblem."""
        self._connect = connect
        self._lock = threading.Lock()
        self._made: tuple[Connection, str] | None = None

    def run(self, content: bytes) -> bytes:
        """For ``FolderElsewhere``."""
        with self._lock:
            if self._made is None or not self._made[0].is_alive:
                if self._made is not None:
                    self._made[0].close()
                self._made = self._connect()
            made = self._made
        return run_reader(*made, content)

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            with suppress(Exception):
                made[0].close()
