"""Parts of a process that must not vanish: what each of them says of itself, and threads that begin again.

A thread whose function raises ends without a word, and what it did is done by nobody any more. A ``LastingThread``
logs what was raised, says so while it waits, and calls the function again after a pause that grows.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence

from trainingservice.secrets_in_use import with_secrets_of_now
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

#: Seconds before a function that raised is called again, for each time in a row.
PAUSES = (1.0, 2.0, 5.0, 15.0, 30.0)
#: Seconds after which a function that was called again counts as well; and as one that has not failed before.
WELL_AFTER, FORGOTTEN_AFTER = 10.0, 60.0


class Part:
    """Something that this process needs in order to do its work. Any thread may say how it is, and ask."""

    def __init__(self, name: str, *, is_vital: bool = False, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``is_vital``: without it the process cannot do what it is there for."""
        self.name, self.is_vital = name, is_vital
        self._monotonic = monotonic
        self._trouble = ""
        self._until = float("inf")

    @property
    def trouble(self) -> str:
        """A sentence that names no host, no user and no path; "" while it is well."""
        return self._trouble if self._monotonic() < self._until else ""

    def is_well(self, in_seconds: float = 0.0) -> None:
        """It is well, or will be after so many seconds unless it says something else until then."""
        self._until = self._monotonic() + in_seconds
        if in_seconds <= 0:
            self._trouble = ""
            with _guard:
                _in_trouble.discard(self)

    def is_in_trouble(self, what: str) -> None:
        """``what``: a sentence that everybody may read."""
        self._trouble, self._until = what, float("inf")
        with _guard:
            _in_trouble.add(self)


_guard = threading.Lock()
_in_trouble: set[Part] = set()


def parts_in_trouble() -> list[Part]:
    """Those of this process that are not well now, by name."""
    with _guard:
        _in_trouble.difference_update([part for part in _in_trouble if not part.trouble])
        return sorted(_in_trouble, key=lambda part: part.name)


def in_short(error: BaseException) -> str:
    """What went wrong, in words that name no host, user or path: those of the system, of SQLite, or the kind alone."""
    for found in (error, error.__cause__):
        if isinstance(found, sqlite3.Error):
            return (str(found).splitlines() or [type(found).__name__])[0]
    if is_shortage(error):
        return "the machine has no thread, process or memory to spare"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return type(error).__name__


class LastingThread:
    """A daemon thread that calls ``work`` until that returns, and calls it again where it raised.

    ``start`` may be called from any thread, and again: while the thread runs it does nothing.
    """

    def __init__(self, name: str, work: Callable[[], None], *, stopping: threading.Event, is_vital: bool = False,
                 pauses: Sequence[float] = PAUSES, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``stopping``: once it is set ``work`` is to return soon, and is not called again.

        ``work`` is a part of the work that makes this object, as far as secrets are concerned.
        """
        self.part = Part(name, is_vital=is_vital, monotonic=monotonic)
        self._work = with_secrets_of_now(work)
        self._stopping = stopping
        self._pauses = pauses
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Raises RuntimeError or MemoryError where the machine has no thread to spare; then it may be tried again."""
        with self._guard:
            if self._thread is not None and self._thread.is_alive():
                return
            thread = threading.Thread(target=self._run, name=self.part.name, daemon=True)
            thread.start()
            self._thread = thread

    @property
    def was_started(self) -> bool:
        return self._thread is not None

    @property
    def is_alive(self) -> bool:
        """Whether it works, or waits to begin again."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most so many seconds. Harmless before ``start``, and on the thread itself."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        failures = 0
        while True:
            began = self._monotonic()
            try:
                self._work()
                self.part.is_well()
                return
            except BaseException as error:  # whatever it is, nobody else would take over what this thread does
                if self._stopping.is_set():
                    self.part.is_well()
                    logger.exception("the part %s failed while it ended", self.part.name)
                    return
                if self._monotonic() - began > FORGOTTEN_AFTER:
                    failures = 0
                pause = self._pauses[min(failures, len(self._pauses) - 1)]
                failures += 1
                with contextlib.suppress(Exception):  # there may be no memory to say it with
                    self.part.is_in_trouble(f"The part \"{self.part.name}\" of the server failed ({in_short(error)}) "
                                            f"and is restarted within {pause:g} s. The log has details.")
                    logger.exception("the part %s failed; it is restarted in %g s", self.part.name, pause)
            if self._stopping.wait(pause):
                self.part.is_well()
                return
            self.part.is_well(in_seconds=WELL_AFTER)
