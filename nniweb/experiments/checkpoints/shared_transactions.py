"""Several threads that each write a little share one transaction, and none waits for the disk: it would hold up
reports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from nniweb.database.later_flush import flushed_later

Item = TypeVar("Item")


class _Wanted(Generic[Item]):
    def __init__(self, item: Item) -> None:
        self.item = item
        self.is_done = False
        self.error: Exception | None = None


class SharedTransactions(Generic[Item]):
    """``write`` may be called by any number of threads."""

    def __init__(self, write: Callable[[Sequence[Item]], None]) -> None:
        """``write`` writes all of them, within a transaction; it may be called again where that one failed."""
        self._write = write
        self._lock = threading.Lock()
        self._waiting: list[_Wanted[Item]] = []
        #: Held by the thread that writes for all that wait.
        self._writing = threading.Lock()

    def write(self, item: Item) -> None:
        """Returns when it is committed, with whatever others wanted meanwhile. Raises what writing it raised.

        A power cut undoes it until another transaction has been committed (``flushed_later``).
        """
        wanted = _Wanted(item)
        with self._lock:
            self._waiting.append(wanted)
        with self._writing:
            if not wanted.is_done:
                with self._lock:
                    some, self._waiting = self._waiting, []
                self._commit(some)
        if wanted.error is not None:
            raise wanted.error

    def _commit(self, some: Sequence[_Wanted[Item]]) -> None:
        try:
            with flushed_later():
                self._write([wanted.item for wanted in some])
        except Exception as error:  # of one of them: the others are not to suffer from it
            if len(some) > 1:
                for wanted in some:
                    self._commit([wanted])
                return
            some[0].error = error
        finally:
            for wanted in some:
                wanted.is_done = True
