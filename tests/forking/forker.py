"""A process that imports, and forks a process for each request.

Imports are most of what the start of a Python program costs, and a run of the tests starts thousands. A module that is
run as such a process calls ``serve`` with what it imports and what runs. Who asks has a ``Forker``, and gets what tests
use of ``subprocess.Popen``. A forked process has the session, folder, environment and streams that it would have if it
were started; in /proc its command line and environment are those of the process it was forked from.

Linux only. Nothing but the standard library is imported: keepers have nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent.parent
#: What a pipe tells of a process: whether it goes on (with its id) or has ended (with its exit status).
_NEWS = struct.Struct("ii")
_GOES_ON, _ENDED = 0, 1
#: More than a process has descriptors.
_DESCRIPTORS = 1 << 20


class ForkedProcess:
    """What tests, and the product, use of ``subprocess.Popen``. Thread-safe."""

    def __init__(self, pid: int, news: int, streams: Sequence[IO[bytes] | None], args: Sequence[str]) -> None:
        """``news``: the pipe that tells of its end."""
        self.pid, self.args = pid, list(args)
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self._news, self._lock = news, threading.Lock()

    def poll(self) -> int | None:
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def _wait(self, seconds: float | None) -> int | None:
        until = None if seconds is None else time.monotonic() + seconds
        while self.returncode is None:
            left = 1.0 if until is None else max(0.0, until - time.monotonic())
            with self._lock:  # one thread takes what is told
                if self.returncode is None and _is_ready(self._news, 0.0):
                    said = os.read(self._news, _NEWS.size)
                    # the process that forks has gone, and nobody knows
                    self.returncode = _NEWS.unpack(said)[1] if said else -signal.SIGKILL
                    break
            if until is not None and left <= 0:
                break
            _is_ready(self._news, min(left, 1.0))
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __del__(self) -> None:
        os.close(self._news)


def _is_ready(descriptor: int, seconds: float) -> bool:
    waiting = select.poll()  # a process of tests has more descriptors than select() takes
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


class Forker:
    """The process that imports. It ends with the process that made this, or when it is closed."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path = ROOT, new_session: bool = True
                 ) -> None:
        """``command``: of the module, after ``python``; the number of a descriptor follows."""
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *command, str(theirs.fileno())], cwd=cwd, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, start_new_session=new_session, env=dict(env))

    def start(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str],
              stdin: int | IO[bytes] | None = subprocess.DEVNULL, stdout: int | IO[bytes] | None = None,
              stderr: int | IO[bytes] | None = None, start_new_session: bool = True, **more: Any
              ) -> ForkedProcess | None:
        """None where the new process could not go on to its program. Streams are as in Popen: PIPE, DEVNULL, STDOUT, a
        file, None for that of this process. ``more``: for the module, as JSON.
        """
        asked = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env),
                            "session": start_new_session, **more})
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            def opened(stack: contextlib.ExitStack, descriptor: int) -> int:
                stack.callback(os.close, descriptor)
                return descriptor

            streams: list[IO[bytes] | None] = []
            given: list[int] = []
            for number, stream in enumerate((stdin, stdout, stderr)):
                mine: IO[bytes] | None = None
                if stream == subprocess.PIPE:
                    reads, writes = os.pipe()
                    given.append(opened(theirs, reads if number == 0 else writes))
                    opened_here: IO[bytes] = os.fdopen(writes, "wb") if number == 0 else os.fdopen(reads, "rb")
                    mine = ours.enter_context(opened_here)
                elif stream == subprocess.DEVNULL:
                    given.append(opened(theirs, os.open(os.devnull, os.O_RDWR)))
                elif stream == subprocess.STDOUT:
                    given.append(given[1])
                elif stream is None:
                    given.append(number)
                else:
                    given.append(stream if isinstance(stream, int) else stream.fileno())
                streams.append(mine)
            request = opened(theirs, os.memfd_create("asked"))  # of any length
            with os.fdopen(request, "w", closefd=False) as file:
                file.write(asked)
            news, told = os.pipe()
            opened(ours, news)
            opened(theirs, told)
            with self._lock:
                socket.send_fds(self._socket, [b"."], [request, told, *given])
            theirs.close()  # else the end of the process that forks would not be seen
            said = os.read(news, _NEWS.size)
            assert said, "the process that forks others has ended"
            kind, pid = _NEWS.unpack(said)
            if kind != _GOES_ON:
                return None
            ours.pop_all()
            return ForkedProcess(pid, news, streams, arguments)

    def close(self) -> None:
        """It ends, and this waits until then."""
        self._socket.close()
        self._process.wait()


_forkers: dict[tuple[int, str], Forker] = {}
_making = threading.Lock()


def forker_of_this_process(kind: str, make: Callable[[], Forker]) -> Forker:
    """The one of this kind, made when it is needed first; a process that is forked from this one has others."""
    with _making:
        key = (os.getpid(), kind)
        if key not in _forkers:
            _forkers[key] = make()
        return _forkers[key]


# --- the process that forks ----------------------------------------------------------------


def serve(descriptor: int, load: Callable[[], None], run: Callable[[dict[str, Any]], NoReturn], *,
          take_over: Callable[[], bool] = lambda: True, waits_for_all: bool = False) -> None:
    """Fork a process for each request, until nobody asks any more; ``waits_for_all``: then wait for their ends.

    ``load`` imports. ``take_over`` and then ``run`` are called in each new process; where the first says no, who asked
    is told so, and the process ends.
    """
    asking = socket.socket(fileno=descriptor)
    load()
    assert len(os.listdir("/proc/self/task")) == 1, "a library has started a thread"
    gc.collect()
    gc.freeze()
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    #: Of each process that has not ended: the pipe that tells of it.
    told: dict[int, int] = {}
    while True:
        ready = select.select([asking.fileno(), wake], [], [])[0]
        if wake in ready:
            os.read(wake, 1024)
            for pid in list(told):
                found, how = os.waitpid(pid, os.WNOHANG)
                if found:
                    _tell(told[pid], _ENDED, os.waitstatus_to_exitcode(how))
                    os.close(told.pop(pid))
        if asking.fileno() not in ready:
            continue
        said, descriptors, _, _ = socket.recv_fds(asking, 1, 5)
        if not said:
            break
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            asking.detach()
            asked = _begin(descriptors)
            if not take_over():
                os._exit(1)
            _tell(_TOLD, _GOES_ON, os.getpid())
            os.close(_TOLD)
            run(asked)
        told[pid] = descriptors[1]
        for one in {descriptors[0], *descriptors[2:]}:
            os.close(one)
    with contextlib.suppress(ChildProcessError):
        while waits_for_all:
            os.wait()


#: The pipe that tells of a new process, in that process.
_TOLD = 3


def _tell(pipe: int, kind: int, number: int) -> None:
    with contextlib.suppress(OSError):  # who asked has gone
        os.write(pipe, _NEWS.pack(kind, number))


def _begin(descriptors: Sequence[int]) -> dict[str, Any]:
    """In the new process: it gets what is its own. What was asked for."""
    request, told, *streams = descriptors
    asked: dict[str, Any]
    with os.fdopen(request, "r") as file:
        file.seek(0)
        asked = json.load(file)
    if asked["session"]:
        os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    if told != _TOLD:
        os.dup2(told, _TOLD, inheritable=False)
    os.closerange(_TOLD + 1, _DESCRIPTORS)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    tempfile.tempdir = None
    return asked
