"""A login node: commands run there through SSH, files are brought and fetched on the same connection."""

from __future__ import annotations

import random
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainingservice.ssh.connection import Connection, connect
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.login_settings import SshLoginSettings
from trainingservice.ssh.problems import MachineProblem, SessionBroke, as_problem
from trainingservice.ssh.reconnect_pauses import RECONNECT, RECONNECT_AFTER_REFUSAL
from trainingservice.submit_host.disk import Disk
from trainingservice.submit_host.host import TIMEOUT, Finished, NotRun, Unanswered
from trainingservice.submit_host.sftp_disk import SftpDisk
from trialkeeper.back_off import back_off

#: Seconds for each step of making a connection, where the caller is not in more of a hurry.
CONNECT_TIMEOUT = 15.0


class LoginNode:
    """One connection, made when it is needed and made anew when it broke; after a failure not at once."""

    def __init__(self, settings: SshLoginSettings, host_keys: Path,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._monotonic = settings, monotonic
        self._keys = HostKeyStore(host_keys)
        self.name = settings.host
        self.disk: Disk = SftpDisk(self.connection)
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._problem: MachineProblem | None = None
        self._failures = 0
        self._not_before = 0.0
        self._closed = False

    @property
    def note(self) -> str:
        """What to tell a person about its host key, "" mostly."""
        connection = self._connection
        return connection.note if connection is not None else ""

    def connection(self, timeout: float = CONNECT_TIMEOUT) -> Connection:
        """The living connection. Raises MachineProblem with the reason why there is none, at once between two tries.

        ``timeout``: seconds for each step of making one.
        """
        with self._lock:
            if self._closed:
                raise MachineProblem(f"The connection to {self.name} was closed.")
            if self._connection is not None and self._connection.is_alive:
                return self._connection
            if self._problem is not None and self._monotonic() < self._not_before:
                raise self._problem
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            try:
                self._connection = connect(self._settings, self._keys, timeout)
            except Exception as error:
                self._problem = as_problem(error, self.name)
                pauses = RECONNECT_AFTER_REFUSAL if self._problem.needs_person else RECONNECT
                self._not_before = self._monotonic() + back_off(self._failures, pauses, random.random())
                self._failures += 1
                raise self._problem from error
            self._problem, self._failures = None, 0
            return self._connection

    def run(self, command: str | Sequence[str], text: str = "", timeout: float = TIMEOUT) -> Finished:
        line = command if isinstance(command, str) else shlex.join(command)
        try:
            # whichever shell the user has there, the text is sh's
            connection = self.connection(min(timeout, CONNECT_TIMEOUT))
            status, output, errors = connection.run(f"exec /bin/sh -c {shlex.quote(line)}", text, timeout)
        except SessionBroke as error:
            raise Unanswered(str(error)) from error
        except MachineProblem as error:
            raise NotRun(str(error)) from error
        return Finished(status, output, errors)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
