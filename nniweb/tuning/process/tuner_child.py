"""One run of the tuner process and the threads that talk to it."""

import collections
import errno
import itertools
import json
import logging
import os
import queue
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import nniweb
from nniweb.tuning.process import process_log
from nniweb.tuning.process.reply_size import MOST_REPLY
from trialkeeper import machine
from trialkeeper.child_process import LOOK_INTERVAL, TreeEnding
from trialkeeper.process_tree import MARK_VARIABLE, ProcessTree

logger = logging.getLogger(__name__)

Reply = dict[str, Any]
#: What is told of a process that has died: so many lines, each of so many characters.
_LAST_LINES, _LONGEST_LAST_LINE = 20, 500
_END_WAIT = 5.0


class TunerFailed(Exception):
    """An algorithm of one experiment raised; that experiment's calls fail with this until it is opened again.
    ``part`` says which: tuner or assessor.
    """

    def __init__(self, experiment_id: str, message: str, traceback: str, part: str = "tuner") -> None:
        super().__init__(message)
        self.experiment_id = experiment_id
        self.message = message
        self.traceback = traceback
        self.part = part


class ReplyTooLong(Exception):
    """The process sent more than a reply may be: something else writes there than ``tuner_process``."""


class TunerProcessDied(Exception):
    """The tuner process ended. Open the experiments again, with their history: a new process starts by itself.

    ``suspect`` is the experiment whose request was being answered, None when there was none: where it is the same
    again and again, that experiment's algorithm is what kills the process.
    """

    def __init__(self, message: str, suspect: str | None = None) -> None:
        super().__init__(message)
        self.suspect = suspect


@dataclass(frozen=True)
class Surroundings:
    """Where a process runs that an experiment has to itself."""

    #: Its working directory. Made where it is not there.
    folder: Path
    #: What its environment has besides ours.
    environment: Mapping[str, str]
    #: Further folders that are made.
    folders: Sequence[Path] = ()

    def make(self) -> None:
        """Raises OSError."""
        for folder in (self.folder, *self.folders):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


class ExitKind(StrEnum):
    """How the process of an experiment that is over ended."""

    #: Everything has arrived, and ``_on_exit`` has returned.
    FINISHED = "finished"
    #: An algorithm has raised.
    FAILED = "failed"
    #: It needed longer than ``TunerChild.exit`` gave it.
    OUT_OF_TIME = "out of time"
    #: Its process died: in another one it may finish.
    DIED = "died"
    #: It was cut short for another reason: in another process it may finish.
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class TunerExit:
    """How the process ended after ``TunerChild.exit``."""

    kind: ExitKind
    #: Results that had not arrived. None: not known, because the algorithms were still receiving their history.
    results: int | None = 0
    #: What an algorithm raised, a sentence; or how the process died, such as "exit code 3".
    error: str = ""


@dataclass
class _Pending:
    op: str
    experiment_id: str
    future: "Future[Reply]"


class TunerChild:
    """Starts the process and owns it until it ends. Thread-safe; no method waits for the process, except ``end``.

    ``on_end`` is called once, by a thread of this object, just before the waiting futures fail. ``owner`` is the
    experiment that has the process to itself; what a shared one says is told apart by its own marks.
    """

    def __init__(self, command: Sequence[str], on_end: Callable[["TunerChild", TunerProcessDied], None],
                 owner: str | None = None, surroundings: Surroundings | None = None) -> None:
        """Raises OSError when the command cannot be started, or its folder cannot be made."""
        if surroundings is not None:
            surroundings.make()
        self._on_end = on_end
        self._owner = owner
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._pending: dict[int, _Pending] = {}
        self._ended: TunerProcessDied | None = None
        self._how_it_ended = ""
        self._exit_seconds = 0.0
        self._deadline: threading.Timer | None = None
        self._is_cut_short = False
        self._exit: Future[TunerExit] = Future()
        #: What its answer to ``exit`` says.
        self._exit_answer: TunerExit | None = None
        #: Why it is cut short, and what is lost by that.
        self._cut: TunerExit | None = None
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._last_lines: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        mark = f"tuner-{uuid.uuid4().hex}"
        environment = surroundings.environment if surroundings is not None else {}
        self._process = start_process(command, surroundings.folder if surroundings is not None else None,
                                      {**tuner_environment(), **environment, MARK_VARIABLE: mark})
        self._tree = ProcessTree(mark, self._process.pid, machine.process_start_time(self._process.pid),
                                 own_children=False, reaps_orphans=False)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads: list[threading.Thread] = []
        try:
            self._stderr_thread = self._start(self._read_log, self._process.stderr)
            self._start(self._write, self._process.stdin)
            self._start(self._read, self._process.stdout)
            self._start(self._end_what_is_left, self._process.stdout)
        except (RuntimeError, MemoryError) as error:
            self._outbox.put(None)
            self._kill()
            raise OSError(errno.EAGAIN, "no thread can be started for its communication") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self, op: str, experiment_id: str, args: Mapping[str, Any]) -> "Future[Reply]":
        """Send a request. The future fails with TunerFailed or TunerProcessDied; ``args`` is read before returning."""
        future: Future[Reply] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            ended = self._ended
            if ended is None:
                number = next(self._ids)
                request = {"id": number, "op": op, "experiment": experiment_id, "args": args}
                self._outbox.put(json.dumps(request).encode() + b"\n")
                self._pending[number] = _Pending(op, experiment_id, future)
        if ended is not None:
            future.set_exception(ended)
        return future

    @property
    def owner(self) -> str | None:
        """The experiment that has the process to itself."""
        return self._owner

    def exit(self, seconds: float) -> "Future[TunerExit]":
        """Have the process answer all requests, call ``_on_exit`` of the algorithms of ``owner``, and end. Does not
        wait: the future is done when the process has ended. After ``seconds`` it is killed. What was not delivered,
        and what the algorithms raised, is logged.
        """
        self._exit_seconds = seconds
        deadline = threading.Timer(seconds, self._cut_short, [ExitKind.OUT_OF_TIME])
        deadline.daemon = True
        with self._lock:
            has_ended = self._ended is not None
            if not has_ended:
                self._deadline = deadline
        if has_ended:
            self._exit.set_result(TunerExit(ExitKind.DIED, error=self._how_it_ended))
            return self._exit
        try:
            deadline.start()
        except RuntimeError:
            logger.warning("no thread can be started to wait for the end of a tuner: it ends at once")
            self.abandon()
            return self._exit
        self.request("exit", str(self._owner), {}).add_done_callback(self._note_exit)
        return self._exit

    def abandon(self) -> None:
        """After ``exit``: end it soon, as another process does its work. Nothing is logged."""
        with self._lock:
            self._is_cut_short = True
            self._cut = self._cut or TunerExit(ExitKind.INTERRUPTED)
        self.end_soon()

    def end_within(self, seconds: float) -> None:
        """After ``exit``: wait for the end, so many seconds at most."""
        self._exit_seconds = min(seconds, self._exit_seconds)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._cut_short(ExitKind.INTERRUPTED)
        self._join_threads()

    def end_soon(self) -> None:
        """Close the process's input: it ends by itself, even in the middle of a computation. Does not wait."""
        self._outbox.put(None)

    def end(self) -> None:
        """Close the process's input, wait for its end, and kill it after 5 s. Waiting futures fail."""
        self._outbox.put(None)
        try:
            self._process.wait(_END_WAIT)
        except subprocess.TimeoutExpired:
            self._kill()
        self._join_threads()

    def _join_threads(self) -> None:
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_END_WAIT)

    def _cut_short(self, kind: ExitKind) -> None:
        """The time that ``exit``, or ``end_within``, gives is over."""
        with self._lock:
            if self._ended is not None or self._is_cut_short:
                return
            self._is_cut_short = True
            waiting = [pending.op for pending in self._pending.values()]
            results = sum(op in ("tell", "intermediate") for op in waiting)
            self._cut = TunerExit(kind, None if "open" in waiting else results)
        logger.warning(
            "the tuner was ended %g s after its experiment (NNIWEB_TUNER_EXIT_SECONDS): %s", self._exit_seconds,
            "it was still receiving its history" if "open" in waiting
            else f"{results} results had not arrived, and _on_exit was not called" if results
            else "_on_exit had not returned", extra=self._said_of())
        self._kill()

    def _note_exit(self, done: "Future[Reply]") -> None:
        error = done.exception()
        if error is None:
            self._exit_answer = TunerExit(ExitKind.FINISHED)
        elif isinstance(error, TunerFailed):
            self._exit_answer = TunerExit(ExitKind.FAILED, error=str(error))
        if error is not None and not self._is_cut_short:
            logger.warning("when its experiment was over, the tuner or the assessor failed: %s\n%s", error,
                           getattr(error, "traceback", ""), extra=self._said_of())

    def _said_of(self, experiment: str | None = None) -> dict[str, str] | None:
        """What a log record carries so that it is filed under the experiment."""
        experiment = self._owner or experiment
        return {"experiment": experiment} if experiment else None

    def _start(self, target: Callable[[IO[bytes]], None], pipe: IO[bytes]) -> threading.Thread:
        thread = threading.Thread(target=target, args=(pipe,), name=f"tuner {target.__name__.strip('_')}", daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            with pipe:
                while (line := self._outbox.get()) is not None:
                    pipe.write(line)
                    pipe.flush()
        except OSError:
            logger.debug("the tuner process closed its input", exc_info=True)  # the reading thread reports the end

    def _read(self, pipe: IO[bytes]) -> None:
        try:
            self._read_replies(pipe)
        except ReplyTooLong as problem:
            self._last_lines.append(str(problem))
            logger.warning("%s, and is ended", problem, extra=self._said_of())
            self._kill()
        except BaseException:  # its end is reported all the same, so that nobody waits for an answer for ever
            logger.exception("the tuner process can no longer be read and is ended")
            self._kill()
        self._report_end()

    def _read_replies(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(MOST_REPLY + 1):
                if len(line) > MOST_REPLY:
                    raise ReplyTooLong(f"the tuner process sent more than {MOST_REPLY // 1024 ** 2} MB in one reply")
                try:
                    reply = json.loads(line)
                    with self._lock:
                        pending = self._pending.pop(reply["id"])
                except (ValueError, TypeError, KeyError, RecursionError):
                    logger.warning("the tuner process sent a line that is not a reply: %.200r", line)
                    continue
                if "ok" in reply:
                    pending.future.set_result(reply["ok"])
                else:
                    failure = TunerFailed(pending.experiment_id, reply["error"], reply["traceback"], reply["part"])
                    pending.future.set_exception(failure)

    def _read_log(self, pipe: IO[bytes]) -> None:
        """What algorithms print and log goes to our log; the last lines explain a death."""
        with pipe:
            for said in process_log.read(process_log.pieces_of(pipe)):
                self._last_lines.extend(process_log.shortened(line, _LONGEST_LAST_LINE)
                                        for line in said.text.splitlines()[-_LAST_LINES:])
                logger.log(said.level, "tuner process: %s", said.text, extra=self._said_of(said.experiment))

    def _end_what_is_left(self, _: IO[bytes]) -> None:
        """Thread: when the process has ended, what it has started ends too, whatever session it is in. Such a process
        may hold the pipes, so their end says nothing.
        """
        self._process.wait()
        ending = TreeEnding(self._tree, 0.0, time.monotonic)
        while not ending.step():
            time.sleep(LOOK_INTERVAL)
        if ending.left_behind:
            logger.warning("%d processes that a tuner has started cannot be ended", ending.left_behind,
                           extra=self._said_of())

    def _report_end(self) -> None:
        try:
            code = self._process.wait(_END_WAIT)
        except subprocess.TimeoutExpired:
            code = self._kill()  # it closed its output, so nobody can hear it any more
        self._stderr_thread.join(_END_WAIT)
        with self._lock:
            is_exiting = self._deadline is not None
            if self._deadline is not None:
                self._deadline.cancel()
            pending = [self._pending[number] for number in sorted(self._pending)]
            self._pending.clear()
            suspect = pending[0].experiment_id if pending else None
            said = "; its last output:\n" + "\n".join(self._last_lines) if self._last_lines else ""
            self._how_it_ended = _how(code)
            self._ended = TunerProcessDied(f"the tuner process ended ({self._how_it_ended}){said}", suspect)
        self._outbox.put(None)
        # First the owner lets go of this process: whoever learns of the end from a future may start the next at once.
        self._on_end(self, self._ended)
        for waiting in pending:
            waiting.future.set_exception(self._ended)
        if is_exiting:
            self._exit.set_result(self._exit_answer or self._cut or TunerExit(ExitKind.DIED, error=self._how_it_ended))

    def _kill(self) -> int:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            logger.debug("the tuner process had just ended")
        return self._process.wait()


def start_process(command: Sequence[str], folder: Path | None, environment: Mapping[str, str]
                  ) -> "subprocess.Popen[bytes]":
    """A process with pipes, in this folder, or ours. Raises OSError."""
    # A session of its own: Ctrl-C on the server goes to the server, which ends this process when it is done.
    return subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True, cwd=folder, env=environment)


def tuner_environment() -> dict[str, str]:
    """The child finds this package wherever the server was started from, and leaves the cores to the trials."""
    package_root = str(Path(nniweb.__file__).resolve().parents[1])
    environment = dict(os.environ)
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    # absolute: a tuner of the user's own runs in another folder than the server
    environment["PYTHONPATH"] = os.pathsep.join([package_root, *map(os.path.abspath, paths)])
    environment.setdefault("OMP_NUM_THREADS", "1")
    return environment


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
