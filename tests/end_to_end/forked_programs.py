"""Programs of this project, each forked from a process that has imported their libraries already.

Importing them is most of what the start of a server costs, and a run of the tests starts hundreds. Most are forked
from a process that has set Django up, too, and take that over for their own settings (preloaded_django.py). Where that
cannot be, what is imported beforehand knows no settings and reads no environment: libraries, and our packages that know
nothing of Django. The program itself runs from its first line, as ``__main__``, in a session, folder and
environment of its own. Its command line and environment in /proc are those of the process it was forked from.

Tests of the start itself, and programs with another Python, start a process of their own.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tests.end_to_end import preloaded_django

ROOT = Path(__file__).resolve().parent.parent.parent
#: Set for a run of the tests, and not outside of one, as in benchmarks, where a start has to cost what it costs.
IN_USE = "NNIWEB_TEST_FORKED_PROGRAMS"
#: What the interpreter or the C library read when they start: who sets one gets a process of their own.
_READ_AT_START = ("PYTHON", "LD_", "MALLOC_", "LANG", "LC_", "TZ")
#: What is set alike for all programs that are forked, or nothing that was imported reads.
_MAY_DIFFER = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
#: Folders that it adds to those of the process it is forked from; it finds no other module of a name that is loaded.
SEARCH_PATH = "PYTHONPATH"
_IMPORTED = (
    "django.core.management.commands.migrate", "django.contrib.admin", "django.db.backends.sqlite3.base", "django.test",
    "channels.routing", "autobahn.twisted.websocket", "twisted.internet.asyncioreactor", "twisted.web.http",
    "twisted.internet.endpoints", "cryptography.hazmat.primitives.ciphers.aead", "pydantic", "yaml", "lark", "paramiko",
    "requests", "sqlparse", "rest_framework.serializers", "markdown", "markdown_it", "pygments.formatters.html",
    "pygments.lexers", "prometheus_client", "orjson", "pythonjsonlogger.json", "whitenoise.middleware", "uritemplate",
    "channels.consumer", "channels.sessions", "daphne.http_protocol", "csp.constants", "psycopg", "dj_database_url",
    "trainingservice.local.service", "trainingservice.remote.service",
    "nniweb.experiments.config", "nniweb.tuning.process.tuner_child",
)
_LENGTH = 8
#: Seconds for a new process to take over what Django knows.
_TAKES_OVER_WITHIN = 60.0


class ForkedProgram:
    """What tests use of ``subprocess.Popen``."""

    def __init__(self, pid: int, ended: dict[int, int], hear: Callable[[float], None]) -> None:
        """``ended``: exit statuses, as they become known; ``hear(seconds)`` waits so long for news of one."""
        self.pid = pid
        self._ended = ended
        self._hear = hear

    @property
    def returncode(self) -> int | None:
        return self._ended.get(self.pid)

    def poll(self) -> int | None:
        if self.pid not in self._ended:
            self._hear(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = 1.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("forked program", timeout or 0.0)
            self._hear(min(left, 1.0))
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _Parent:
    """A process that has imported; one of a kind for each process that runs tests, started when it is needed first."""

    def __init__(self, database: str) -> None:
        """``database``: for which Django is set up, "" where it is not."""
        self._lock = threading.Lock()
        self._ended: dict[int, int] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.end_to_end.forked_programs", str(theirs.fileno()),
                 database], cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                start_new_session=True, env={**_without_settings(os.environ), "PYTHONUNBUFFERED": "1"})

    def start(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], outputs: tuple[int, int]
              ) -> ForkedProgram | None:
        """None where it could not take over what this parent has loaded."""
        asked = json.dumps([list(arguments), str(cwd), dict(env)]).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(asked).to_bytes(_LENGTH, "big")], list(outputs))
            for start in range(0, len(asked), 60_000):
                self._socket.send(asked[start:start + 60_000])
            started: list[int] = []
            while not started:
                self._read(started)
            return ForkedProgram(started[0], self._ended, self._hear) if started[0] else None

    def _read(self, started: list[int]) -> None:
        said = self._socket.recv(1024)
        assert said, "the process that forks programs has ended"
        kind, pid, status = json.loads(said)
        if kind == "started":
            started.append(pid)
            self._ended.pop(pid, None)
        else:
            self._ended[pid] = status

    def _hear(self, seconds: float) -> None:
        """Take what was said of programs that ended, and wait so long for the first."""
        select.select([self._socket], [], [], seconds)
        with self._lock:
            while select.select([self._socket], [], [], 0)[0]:
                self._read([])


_parents: dict[tuple[int, str], _Parent] = {}


def can_start(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment may be forked: within a run of the tests, and only where it makes no
    difference to the interpreter.
    """
    ours = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)}
    theirs = {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
    differs = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    may = _MAY_DIFFER if SEARCH_PATH in ours else {*_MAY_DIFFER, SEARCH_PATH}
    return sys.platform == "linux" and IN_USE in os.environ and differs <= may


def start(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdout: int, stderr: int) -> ForkedProgram:
    """Run the Python file ``arguments[0]`` with these arguments, or the module after ``-m``. ``stdout`` and ``stderr``
    are descriptors.
    """
    outputs = (stdout, stderr)
    database = preloaded_django.database_of(arguments, env)
    program = _parent(database).start(arguments, cwd, env, outputs) if database else None
    program = program or _parent("").start(arguments, cwd, env, outputs)
    assert program is not None
    return program


def _parent(database: str) -> _Parent:
    key = (os.getpid(), database)
    if key not in _parents:
        _parents[key] = _Parent(database)  # it ends with this process and its end of the socket
    return _parents[key]


def run(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
        ) -> subprocess.CompletedProcess[str]:
    """The same until it ends, and what it wrote. Raises subprocess.TimeoutExpired, when it has killed the program."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        program = start(arguments, cwd=cwd, env=env, stdout=out.fileno(), stderr=errors.fileno())
        try:
            status = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            raise
        texts = []
        for stream in (out, errors):
            stream.seek(0)
            texts.append(stream.read().decode())
        return subprocess.CompletedProcess(list(arguments), status, *texts)


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(("NNIWEB_", "NNI_", "DJANGO_"))}


# --- the process that forks ----------------------------------------------------------------


def main(descriptor: int, database: str) -> None:
    """Fork a program for each request, until nobody asks any more."""
    asking = socket.socket(fileno=descriptor)
    _load(database)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
    while True:
        ready = select.select([asking.fileno(), wake], [], [])[0]
        if wake in ready:
            os.read(wake, 1024)
        for pid in sorted(running):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                running.discard(pid)
                asking.send(json.dumps(["ended", pid, os.waitstatus_to_exitcode(status)]).encode())
        if asking.fileno() not in ready:
            continue
        head, outputs, _, _ = socket.recv_fds(asking, _LENGTH, 2)
        if not head:
            return
        asked = b""
        while len(asked) < int.from_bytes(head, "big"):
            asked += asking.recv(65_536)
        begins, begun = os.pipe()
        pid = os.fork()
        if pid == 0:
            asking.close()
            for pipe in (wake, begins):
                os.close(pipe)
            signal.set_wakeup_fd(-1)
            os.close(woken)
            arguments, cwd, env = json.loads(asked)
            _run(arguments, cwd, env, outputs, bool(database), begun)
        for descriptor in (*outputs, begun):
            os.close(descriptor)
        if _has_begun(begins):
            running.add(pid)
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pid = 0
        asking.send(json.dumps(["started", pid, 0]).encode())


def _load(database: str) -> None:
    from trainingservice import platforms  # not in the processes that run tests
    from trainingservice.keeper.keeper_bundle import compiled_keeper_bytes

    for name in _IMPORTED:
        importlib.import_module(name)
    for name in platforms.BUILT_IN:
        with contextlib.suppress(platforms.BrokenPlatform):  # the program says so
            platforms.load_platform(name)
    compiled_keeper_bytes()
    if database:
        preloaded_django.load(database)
    assert threading.active_count() == 1, "a library has started a thread"
    assert "twisted.internet.reactor" not in sys.modules, "what waits for events must not be shared"
    gc.collect()
    gc.freeze()


def _has_begun(pipe: int) -> bool:
    """Whether the new process goes on to its program, as it says over this pipe."""
    try:
        return bool(select.select([pipe], [], [], _TAKES_OVER_WITHIN)[0] and os.read(pipe, 1))
    finally:
        os.close(pipe)


def _run(arguments: list[str], cwd: str, env: dict[str, str], outputs: list[int], has_django: bool, begun: int
         ) -> NoReturn:
    """In the new process. It ends as an interpreter does: an uncaught error, exit functions, threads, streams.

    ``begun``: of a pipe, which it closes without a word where it cannot take over what was loaded.
    """
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
    if has_django and not preloaded_django.take_over():
        os._exit(1)
    os.write(begun, b".")
    os.close(begun)
    sys.path[1:1] = [os.path.abspath(folder) for folder in env.get(SEARCH_PATH, "").split(os.pathsep) if folder]
    if arguments[0] == "-m":
        sys.argv[:], sys.path[0] = arguments[1:], cwd
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        program = Path(cwd, arguments[0])
        sys.argv[:], sys.path[0] = arguments, str(program.parent)
        runpy.run_path(str(program), run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
