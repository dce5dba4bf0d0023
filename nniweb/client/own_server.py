"""The server of this user's data folder on this machine, for scripts and notebooks: found, or started where none runs.

A server that is started here is ``serve`` on a free loopback port, in a session of its own, so that neither Ctrl-C nor
the end of a notebook reaches it. Processes that use it hold a shared lock. The last of them ends it when it exits, but
not while an experiment has not ended. A server that somebody else has started is used and left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nniweb.client.connection import Client
from nniweb.client.credentials import find_token
from nniweb.client.errors import ClientError, Refused
from nniweb.client.experiment import Experiment
from nniweb.storage import own_files
from nniweb.storage.data_folder import ServerLock, prepare, read_address_file, read_or_make

#: Seconds until a server that was started must answer; its first start makes the database.
START_PATIENCE = 300.0
#: Seconds for a command that makes a token, and for the end of a server.
TOKEN_PATIENCE, END_PATIENCE = 120.0, 30.0
_LOOK_EVERY = 0.1
#: Starts with another free port, where a program was faster.
_TRIES = 3
#: Lines of a server's output that an error repeats.
_LAST_LINES = 8
UNFINISHED = "INITIALIZED,RUNNING,PAUSED,NO_MORE_TRIAL,TUNER_NO_MORE_TRIAL,STOPPING"


def connect(server: str | None = None, *, data_folder: str | os.PathLike[str] | None = None,
            port: int | None = None, stays: bool = False) -> Client:
    """The client of ``server`` (else NNIWEB_SERVER), with the token as ``Client`` finds it. Where neither is given, or
    ``data_folder`` is: of the server of that folder (else NNIWEB_DATA, else the folder that the commands use), which is
    started on a loopback port (``port``, else a free one) where none runs, with a token of its administrator. A server
    that is started here ends with the last program that uses it, unless it ``stays``.

    Blocks until the server answers. Raises ClientError. Thread-safe.
    """
    if server is not None or (data_folder is None and server_is_named()):
        return Client(server)
    folder = Path(data_folder) if data_folder is not None else Path(
        os.environ.get("NNIWEB_DATA") or own_files.default_data_folder())
    folder = folder.expanduser().absolute()
    try:
        with _guard:
            return _used(folder).client(port, stays=stays)
    except OSError as error:
        raise ClientError(f"The data folder {folder} cannot be used: {error.strerror or error}. Free disk space, "
                          "correct the folder's permissions, or choose another folder with data_folder or "
                          "NNIWEB_DATA.") from None


def server_is_named() -> bool:
    """Whether NNIWEB_SERVER says which server is meant: it may have other folders than this machine."""
    return bool(os.environ.get("NNIWEB_SERVER"))


def launch_in_place(client: Client, config: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Experiment, str]:
    """Launch as NNI does, with the code where it lies, on the server that ``connect()`` has found. Returns the
    experiment, and why its code was uploaded, or "".

    Where NNIWEB_SERVER names the server, the code is uploaded, and so it is where that server does not take its folder.
    Raises as ``Client.launch``.
    """
    if server_is_named():
        return client.launch(config), ""
    base = Path.cwd() if isinstance(config, Mapping) else Path(config).absolute().parent
    try:
        return client.launch(config, base_directory=base), ""
    except Refused as refused:
        said = [error.message for error in refused.errors if error.field in ("base_directory", "trialCodeDirectory")]
        if not said:
            raise
    return client.launch(config), f"The trials run in a copy of the code: {' '.join(said)}"


@dataclass
class _OwnServer:
    """The server of one data folder, as long as this process uses it."""

    folder: Path
    #: Held shared: others see that it is used.
    lock: IO[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def _place(self) -> Path:
        """Where this module keeps its files."""
        return self.folder / "embedded"

    @property
    def _marker(self) -> Path:
        """Has the process id of the server that was started here."""
        return self._place / "server"

    def client(self, port: int | None, *, stays: bool = False) -> Client:
        url = self._running() or self._start(port, stays=stays)
        for _ in range(2):
            client = Client(url, self._token())
            try:
                client.account()
                return client
            except Refused as refused:
                if refused.status not in (401, 403):
                    raise
                (self._place / "token").unlink(missing_ok=True)  # somebody took it back
        raise ClientError(f"{url} accepts no token that the data folder {self.folder} has. Give the address of the "
                          "server and a token; docs/client.md says how.")

    def _running(self) -> str | None:
        """The address of the server that uses the folder now; waits for one that is being started."""
        deadline = time.monotonic() + START_PATIENCE
        while ServerLock(self.folder).is_held():
            if (url := self._address()) is not None:
                return url
            if time.monotonic() > deadline:
                raise ClientError(f"Another server uses the data folder {self.folder}, and has not said its address "
                                  f"for {START_PATIENCE:.0f} seconds. Look at what it prints, or choose another "
                                  "folder with data_folder or NNIWEB_DATA.")
            time.sleep(_LOOK_EVERY)
        return None

    def _address(self, pid: int | None = None) -> str | None:
        """What ``server.json`` says, where the process that wrote it is alive (and is this one)."""
        said = read_address_file(self.folder / "server.json")
        writer, urls = said.get("pid"), said.get("urls")
        if not isinstance(writer, int) or not isinstance(urls, list) or not urls or pid not in (None, writer):
            return None
        return str(urls[0]) if Path(f"/proc/{writer}").exists() else None

    def _start(self, port: int | None, *, stays: bool) -> str:
        said = ""
        for _ in range(1 if port is not None else _TRIES):
            process = self._begin(port if port is not None else _free_port())
            if (url := self._wait_for(process)) is not None:
                self._note(process, stays=stays)
                sys.stderr.write(f"A server was started at {url}, with the data folder {self.folder}. To sign in to "
                                 f"its pages, use the link that this command prints: {self._how_to_sign_in()}\n")
                if stays:
                    sys.stderr.write(f"The server stays. To end it: kill {process.pid}\n")
                return url
            said = self._log_tail()
            if (other := self._running()) is not None:  # another process of this user was faster
                return other
            if "cannot" not in said or "port" not in said.lower():
                break
        raise ClientError(f"The server for this program could not be started:\n{said}\nIts whole output is in "
                          f"{self._log}.")

    def _wait_for(self, process: subprocess.Popen[bytes]) -> str | None:
        """Its address; None where it has ended. One that does not come up, or is not waited for, is ended."""
        deadline = time.monotonic() + START_PATIENCE
        url = None
        try:
            while (url := self._address(process.pid)) is None and process.poll() is None:
                if time.monotonic() > deadline:
                    break
                time.sleep(_LOOK_EVERY)
            return url
        finally:
            if url is None and process.poll() is None:
                process.kill()
                process.wait()

    def _note(self, process: subprocess.Popen[bytes], *, stays: bool) -> None:
        """That it was started here, so that the last program that uses it ends it."""
        self.process = process
        if stays:
            self._marker.unlink(missing_ok=True)
            return
        with open(self._marker, "w", opener=_private) as marker:
            marker.write(str(process.pid))

    def _how_to_sign_in(self) -> str:
        is_usual = str(self.folder) == str(os.environ.get("NNIWEB_DATA") or own_files.default_data_folder())
        return f"{'' if is_usual else f'NNIWEB_DATA={shlex.quote(str(self.folder))} '}{own_files.COMMAND} sign-in-link"

    def _begin(self, port: int) -> subprocess.Popen[bytes]:
        with open(self._log, "wb", opener=_private) as log:
            return subprocess.Popen([*own_command(), "serve", "--host", "127.0.0.1", "--port", str(port)],
                                    cwd=self.folder, env=own_environment(NNIWEB_DATA=str(self.folder), NNIWEB_DEMO="0"),
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                    start_new_session=True)

    @property
    def _log(self) -> Path:
        return self._place / "server.log"

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:])

    def _token(self) -> str:
        """A token of the first administrator, made once and kept in a file that only this user may read."""
        file = self._place / "token"
        read_or_make(file, self._new_token)
        return find_token(file)

    def _new_token(self) -> str:
        done = subprocess.run([*own_command(), "token", "--name", "scripts and notebooks on the server's machine"],
                              cwd=self.folder, env=own_environment(NNIWEB_DATA=str(self.folder)), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=TOKEN_PATIENCE, check=False)
        words = done.stdout.split()
        if done.returncode or not words:
            raise ClientError("A token for the server of this data folder could not be made: "
                              f"{(done.stderr or done.stdout).strip()[-500:]}")
        return words[-1]

    def let_go(self) -> None:
        """Use it no more: where nobody else does, and nothing goes on, end what was started here."""
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.lock.close()
            return
        try:
            self._end_if_idle()
        except (ClientError, OSError) as error:
            sys.stderr.write(f"The server of {self.folder} may still run: {error}\n")
        finally:
            self.lock.close()

    def _end_if_idle(self) -> None:
        pid, url = self._started_here(), self._address()
        if pid is None or url is None:
            return
        client = Client(url, self._token(), patience=5.0)
        going_on = client.get("experiments/", status=UNFINISHED, archived="all", page_size=1)["count"]
        if going_on:
            said = "1 experiment has" if going_on == 1 else f"{going_on} experiments have"
            sys.stderr.write(f"The server at {url} continues, because {said} not ended. The next program that uses it "
                             f"ends it; so does: kill {pid} (trials continue, and the next server finds them).\n")
            return
        os.kill(pid, signal.SIGTERM)  # a program in the background of a shell script ignores SIGINT, and so its server
        deadline = time.monotonic() + END_PATIENCE
        while ServerLock(self.folder).is_held() and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_PATIENCE)

    def _started_here(self) -> int | None:
        """The process of the server, where this module has started it, in whatever process."""
        try:
            pid = int(self._marker.read_text())
        except (OSError, ValueError):
            return None
        return pid if ServerLock(self.folder).is_held() and self._address(pid) is not None else None


#: One thread at a time finds or starts a server.
_guard = threading.Lock()
_in_use: dict[Path, _OwnServer] = {}
_owner = os.getpid()


def _used(folder: Path) -> _OwnServer:
    """That of the folder, locked until this process exits. Raises OSError."""
    global _owner
    if _owner != os.getpid():  # after a fork: the locks are the parent's
        _in_use.clear()
        _owner = os.getpid()
    if folder not in _in_use:
        prepare(folder)
        prepare(folder / "embedded")
        lock = open(folder / "embedded" / "users.lock", "a", opener=_private)  # noqa: SIM115  # held until the exit
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits while somebody ends the server
        _in_use.setdefault(folder, _OwnServer(folder, lock))
    return _in_use[folder]


@atexit.register
def let_go() -> None:
    """Use the servers of this machine no more; called when this process exits."""
    if _owner == os.getpid():
        while _in_use:
            _in_use.popitem()[1].let_go()


def own_command() -> list[str]:
    """What starts ``nniweb`` with this Python."""
    if not sys.executable:
        raise ClientError("This program does not know its own Python (sys.executable is empty), so it cannot start a "
                          "server. Start one with nniweb serve.")
    if own_files.IS_INSTALLED:
        return [sys.executable, "-m", "nniweb"]
    return [sys.executable, str(own_files.FOLDER / "manage.py")]


def own_environment(**more: str) -> dict[str, str]:
    """For such a command: that of this process, but not the settings of another Django project."""
    return {**{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}, **more}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
