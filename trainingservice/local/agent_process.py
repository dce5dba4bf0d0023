"""An agent of this machine as a child process that is started when needed and again when it dies.

The agent has a session of its own, so Ctrl-C on the server does not reach it or its keepers. It
ends when its input ends, thus also when the server is killed; keepers and trials then go on.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from trainingservice.errors import TemporaryError
from trainingservice.keeper.agent_client import AgentClient, AgentGone, FolderState
from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.local.environment import allowed_environment
from trainingservice.local.os_user import agent_command, end
from trainingservice.local.user_folder import UserFolder
from trainingservice.machine_load import MachineLoad

logger = logging.getLogger(__name__)

#: A new agent is not started sooner than this after the last one, in seconds; doubled, up to the
#: second figure, with each agent in a row that did not live for EARLY_DEATH seconds.
RESTART_PAUSE, LONGEST_RESTART_PAUSE = 1.0, 60.0
EARLY_DEATH = 10.0


def start_agent(bundle: Path, folder: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """An agent of the server's own user, with ``folder`` as its working directory. Raises OSError."""
    # -I: neither the server's PYTHON* variables nor its folder change what the agent runs; -S: nor do installed
    # packages, of which some run code at each start of Python
    return subprocess.Popen([sys.executable, "-I", "-S", str(bundle), "agent"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=log, cwd=folder, env=allowed_environment(),
                            start_new_session=True)


class AgentProcess:
    """Keeps one agent alive. All methods may be called from any thread."""

    def __init__(self, folder: Path, *, on_event: Callable[[str, FolderState], None], on_gone: Callable[[], None],
                 user_folder: UserFolder | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``folder`` gets the keeper's bundle and ``agent.log``. ``on_gone``: an agent died that was not told to.

        ``user_folder``: the agent runs as the user whose folder that is, with a keeper and an ``agent.log`` there.
        """
        self._folder = folder
        self._user_folder = user_folder
        # what another user runs must not fill a file of the server's
        self._log = (folder if user_folder is None else user_folder.path) / "agent.log"
        self._on_event = on_event
        self._on_gone = on_gone
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._client: AgentClient | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = float("-inf")
        self._early_deaths = 0
        self._closed_for_good = False
        self._bundle: Path | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the agent that runs now, None where none does."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def load(self) -> MachineLoad | None:
        """How busy the machine is, as the agent that runs now told it last; None where none did."""
        client = self._client
        return None if client is None else client.load

    def client(self) -> AgentClient:
        """A client of a living agent, started if need be. Raises TemporaryError where none can be had."""
        with self._lock:
            client = self._client
            if client is None or client.closed:
                client = self._start()
        try:
            client.hello()
        except AgentGone as error:
            self._drop(client)
            raise AgentGone(f"{error}; see {self._log}", retry_after=RESTART_PAUSE) from error
        return client

    def close(self, *, for_good: bool = False) -> None:
        """End the agent; the next ``client()`` starts a new one, or, after ``for_good``, raises TemporaryError."""
        with self._lock:
            self._closed_for_good |= for_good
            client, process, self._client, self._process = self._client, self._process, None, None
            self._started_at = float("-inf")
        if client is not None:
            client.close()
        if process is not None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                logger.warning("the agent (process %d) did not end by itself and is ended", process.pid)
                end(process)
            # a child of the agent's (nvidia-smi) may hold the pipe for a while: then the reading thread ends with it
            if process.stdout is not None and (client is None or client.join(1)):
                process.stdout.close()

    def _start(self) -> AgentClient:
        """Start an agent (the lock is held)."""
        if self._closed_for_good:
            raise TemporaryError("this service of the local platform was closed")
        least = min(LONGEST_RESTART_PAUSE, RESTART_PAUSE * 2 ** min(self._early_deaths, 10))
        pause = self._started_at + least - self._monotonic()
        if pause > 0:
            raise TemporaryError("the agent of this machine has just ended and is started again in a moment; "
                                 f"see {self._log}", retry_after=pause)
        self._started_at = self._monotonic()
        if self._process is not None:  # the dead one: take its exit status, so that no zombie stays
            end(self._process)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._bundle is None or not self._bundle.is_file():  # an agent of this service is the same throughout
                self._bundle = build_keeper(self._folder).path
            process = self._launch(self._bundle)
        except OSError as error:
            raise TemporaryError(f"the agent of this machine cannot be started: {error}. Correct that; the server "
                                 "tries again") from error
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        try:
            client = AgentClient(process.stdout, process.stdin, on_event=self._on_event, name="of this machine",
                                 on_closed=lambda: self._lost(process))
        except TemporaryError:
            end(process)
            self._process = None
            raise
        self._client = client
        return client

    def _launch(self, bundle: Path) -> subprocess.Popen[bytes]:
        if self._user_folder is not None:
            return self._user_folder.user.start(
                agent_command(sys.executable, self._user_folder.make_ready(bundle), self._log), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with open(self._log, "ab") as log:
            return start_agent(bundle, self._folder, log)

    def _lost(self, process: subprocess.Popen[bytes]) -> None:
        """In the reading thread: the agent's output has ended."""
        if process is self._process:  # otherwise it was told to end, or is replaced already
            lived = self._monotonic() - self._started_at
            self._early_deaths = self._early_deaths + 1 if lived < EARLY_DEATH else 0
            logger.warning("the agent of this machine (process %d) has ended; trials continue, and the agent is "
                           "started again",
                           process.pid)
            self._on_gone()

    def _drop(self, client: AgentClient) -> None:
        with self._lock:
            if self._client is client:
                self._client = None
        client.close()
