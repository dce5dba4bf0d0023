"""How many reading processes run at a time: each may take a processor and much memory for half a minute.

Each person has a share, so that nobody keeps the others from having their code read.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

#: Processes of this server at a time; and of one person, running or waiting for room.
MOST_RUNNING, MOST_OF_PERSON = 2, 2
#: Seconds that a person's reading waits for room.
PATIENCE = 60.0


class NoSlot(Exception):
    """Too many readings are in progress. The sentence says what to do."""


class ReadingSlots:
    """Methods may be called from any thread."""

    def __init__(self) -> None:
        #: Who asks in the present context; None where nobody does, such as in the worker.
        self.person: Callable[[], Hashable | None] = lambda: None
        self._changed = threading.Condition()
        self._running = 0
        self._of_person: Counter[Hashable] = Counter()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Room for one process. Blocking. Raises NoSlot, but not where nobody asks: that waits until there is room."""
        person = self.person()
        with self._changed:
            if person is not None and self._of_person[person] >= MOST_OF_PERSON:
                raise NoSlot(f"{MOST_OF_PERSON} of your checks of annotations are in progress, which is the maximum "
                             "for each person. Try again when one has ended.")
            self._of_person[person] += 1
            try:
                self._wait(None if person is None else time.monotonic() + PATIENCE)
                self._running += 1
            except BaseException:
                self._leave(person)
                raise
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._leave(person)
                self._changed.notify()

    def _wait(self, until: float | None) -> None:
        while self._running >= MOST_RUNNING:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise NoSlot("The server reads the annotations of other people's code at the moment. Try again in a "
                             "minute.")
            self._changed.wait(left)

    def _leave(self, person: Hashable) -> None:
        self._of_person[person] -= 1
        if not self._of_person[person]:
            del self._of_person[person]


#: Of this process.
slots = ReadingSlots()
