"""How many trials are on the cluster at the same time, so that there are never more than it may have."""

from __future__ import annotations

import threading
from collections.abc import Callable

from trainingservice.polling.service import MustWait
from trainingservice.reasons import Reason


class Room:
    """Counts trials by name. Each call takes the same time, however many there are; from any thread."""

    def __init__(self, most: int, has_ended: Callable[[str], bool]) -> None:
        """``has_ended`` says of a trial whether it has; ``give_back`` must be called after it began to say so."""
        self._most, self._has_ended = most, has_ended
        self._lock = threading.Lock()
        self._names: set[str] = set()

    def check(self) -> None:
        """Raises MustWait where there is no room for one more."""
        unfinished = len(self._names)
        if unfinished >= self._most:
            raise MustWait(Reason("most_objects", unfinished=unfinished, most=self._most))

    def take(self, name: str) -> None:
        """This trial is on the cluster. Harmless when repeated, and for one that has ended."""
        with self._lock:  # asked with the lock held: an end that comes now gives back after us
            if not self._has_ended(name):
                self._names.add(name)

    def give_back(self, name: str) -> None:
        """This trial has ended. Harmless when repeated."""
        with self._lock:
            self._names.discard(name)
