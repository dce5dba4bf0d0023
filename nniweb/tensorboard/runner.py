"""The process of a TensorBoard on this host, and the threads that look after it and bring it files.

Whichever web process of a host is asked first runs it for all of them: a lock in its folder says that there is one, and
``server.json`` where it listens. When that process ends, the kernel ends TensorBoard with it, and the next request
starts it anew.
"""

import fcntl
import json
import logging
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings
from django.db import close_old_connections

from nniweb.experiments.models import TensorBoard
from nniweb.tensorboard import boards, launcher
from nniweb.tensorboard.event_files import TrialCopy, empty
from trialkeeper import machine

logger = logging.getLogger(__name__)

#: Seconds between two passes over the trials that go on; between two looks whether it is still wanted.
BRING_EVERY, LOOK_EVERY = 10.0, 2.0
#: Seconds until it must listen; for which a failure is shown before it is started again.
START_WITHIN, SHOW_FAILURE = 120.0, 20.0
_LISTENS = re.compile(rb"http://127\.0\.0\.1:(\d+)/")
_SERVER = "server.json"


@dataclass(frozen=True)
class Address:
    """Where one listens on this host. ``prefix`` is a secret: it keeps other users of the machine out."""

    pid: int
    start_time: str | None
    port: int
    prefix: str


_guard = threading.Lock()
_failed_at: dict[str, float] = {}


def address_of(board: TensorBoard) -> Address | None:
    """Where it listens; None while it is being started, or has just failed (``board.message`` says why)."""
    folder = boards.folder() / board.public_id
    address = _read(folder)
    if address is not None:
        return address
    with _guard:
        if time.monotonic() - _failed_at.get(board.public_id, float("-inf")) > SHOW_FAILURE:
            _failed_at.pop(board.public_id, None)
            _run_unless_it_runs(board, folder)
    return None


def has_failed(board: TensorBoard) -> bool:
    """Whether it ended by itself a moment ago."""
    return board.public_id in _failed_at


def _read(folder: Path) -> Address | None:
    try:
        address = Address(**json.loads((folder / _SERVER).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return address if machine.process_lives(address.pid, address.start_time) else None


def _run_unless_it_runs(board: TensorBoard, folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)  # another process runs it, or is about to
        return
    runner = _Runner(board.public_id, list(board.trials), folder, lock)
    try:
        threading.Thread(target=runner.run, name=f"tensorboard {board.public_id}", daemon=True).start()
    except BaseException:  # the machine has no thread to spare: whoever looks again tries again
        os.close(lock)
        raise


class _Runner:
    def __init__(self, board: str, trials: list[str], folder: Path, lock: int) -> None:
        self._board, self._trials, self._folder, self._lock = board, trials, folder, lock
        self._over = threading.Event()
        self._looked_at = time.monotonic()

    def run(self) -> None:
        """Until it is not wanted any more. The process is a child of this very thread, and dies with it."""
        try:
            empty(self._folder / "logs")
            self._say("")  # what an earlier one had to say
            bringing = threading.Thread(target=self._bring, name=f"files of tensorboard {self._board}", daemon=True)
            bringing.start()
            failure = self._serve()
            if failure:
                logger.warning("TensorBoard %s: %s", self._board, failure)
                with _guard:
                    _failed_at[self._board] = time.monotonic()
                self._say(failure)
        except Exception as error:
            logger.exception("TensorBoard %s failed", self._board)
            with _guard:
                _failed_at[self._board] = time.monotonic()
            self._say(f"TensorBoard could not be run on the server: {type(error).__name__}: {error}")
        finally:
            self._over.set()
            (self._folder / _SERVER).unlink(missing_ok=True)
            os.close(self._lock)
            with suppress(Exception):  # what is left is removed by whoever starts the next one
                boards.end_idle()
            close_old_connections()

    def _serve(self) -> str:
        """Why it ended by itself; "" where it was ended."""
        prefix = f"/{secrets.token_urlsafe(24)}"
        options = {"logs": str(self._folder / "logs"), "prefix": prefix, "title": "TensorBoard – NNI Web"}
        # its own temporary folder: TensorBoard writes there for everybody where it listens
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder),
                       "TMPDIR": str(self._folder), "LC_ALL": "C.UTF-8"}
        log_path = self._folder / "tensorboard.log"
        with open(log_path, "wb") as log:
            process = subprocess.Popen([sys.executable, "-I", launcher.__file__, str(os.getpid())], env=environment,
                                       stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self._folder,
                                       start_new_session=True)
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(options).encode())
            begin, listens = time.monotonic(), False
            while process.poll() is None:
                if not listens and (found := _LISTENS.search(log_path.read_bytes())):
                    self._listens(Address(process.pid, machine.process_start_time(process.pid),
                                          int(found[1]), prefix))
                    listens = True
                if not listens and time.monotonic() - begin > START_WITHIN:
                    return f"TensorBoard did not start to listen within {START_WITHIN:.0f} s. {_end_of(log_path)}"
                if not self._is_wanted():
                    return ""
                self._over.wait(0.5 if listens else 0.1)
            return f"TensorBoard ended by itself (exit status {process.returncode}). {_end_of(log_path)}"
        finally:
            process.kill()
            process.wait()

    def _listens(self, address: Address) -> None:
        draft = self._folder / f"{_SERVER}.draft"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(address), file)
        draft.replace(self._folder / _SERVER)

    def _is_wanted(self) -> bool:
        if time.monotonic() - self._looked_at < LOOK_EVERY:
            return True
        self._looked_at = time.monotonic()
        try:
            return boards.is_wanted(self._board)
        except Exception as error:  # the database is away: unknown is not unwanted
            logger.warning("the server could not check whether TensorBoard %s is still wanted: %s", self._board, error)
            return True
        finally:
            close_old_connections()

    # --- files ---------------------------------------------------------------------------------

    def _bring(self) -> None:
        copies = [TrialCopy(trial, self._folder / "logs") for trial in self._trials]
        said = ""
        try:
            while not self._over.is_set():
                for copy in copies:
                    if not copy.is_whole and not self._over.is_set():
                        most = settings.TENSORBOARD_BYTES - sum(other.size for other in copies if other is not copy)
                        copy.bring(most)
                text = _in_words({copy.name: copy.problem for copy in copies if copy.problem})
                if text != said:
                    self._say(text)
                    said = text
                close_old_connections()
                if all(copy.is_whole for copy in copies):
                    return
                self._over.wait(BRING_EVERY)
        except Exception:
            logger.exception("the files of TensorBoard %s are no longer copied", self._board)
            self._say("The files of its trials could not be copied because of an unexpected error. The server's log "
                      "has the traceback.")
        finally:
            for copy in copies:
                copy.close()
            close_old_connections()

    def _say(self, message: str) -> None:
        try:
            TensorBoard.objects.filter(public_id=self._board).update(message=message)
        except Exception as error:
            logger.warning("TensorBoard %s: %s (this could not be stored: %s)", self._board, message, error)


def _in_words(problems: dict[str, str]) -> str:
    """One sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for trial, reason in problems.items():
        by_reason.setdefault(reason, []).append(trial)
    return " ".join(f"{', '.join(trials)}: {reason.rstrip('.')}." for reason, trials in by_reason.items())


def _end_of(log: Path) -> str:
    """The last words of its log, on one line."""
    return " ".join(log.read_bytes()[-1500:].decode(errors="replace").split())[-600:]
