"""A person's regular expression, matched within a bounded time.

Python's engine may take exponential time. It looks for signals while it matches, so a timer of the process can end it.
On the main thread only, where Python handles signals.
"""

import re
import signal
from typing import Any, List, Match, Optional

#: Seconds of processor time for one line, and for many lines together before each is tried alone.
SECONDS = 0.1
#: After so many lines that took longer nothing is matched any more.
MOST_SLOW_LINES = 3


class _TimeIsUp(Exception):
    """Raised in the midst of a match."""


class _Timer:
    """Raises _TimeIsUp while it is armed, again and again: Python throws away what is raised in a destructor."""

    _is_armed = False

    def __call__(self, number: int, frame: Any) -> None:
        if self._is_armed:
            raise _TimeIsUp

    def arm(self, seconds: float) -> None:
        self._is_armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)

    def disarm(self) -> None:
        self._is_armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


_timer = _Timer()


class BoundedPattern:
    """Made and used on the main thread. Takes SIGVTALRM."""

    def __init__(self, pattern: str, seconds: float = SECONDS) -> None:
        """Raises re.error."""
        self._search = re.compile(pattern).search
        self._seconds = seconds
        self.slow_lines = 0
        signal.signal(signal.SIGVTALRM, _timer)

    @property
    def has_given_up(self) -> bool:
        return self.slow_lines >= MOST_SLOW_LINES

    def search(self, lines: List[str]) -> List[Optional[Match[str]]]:
        """The first match in each line. None also where it was not found in time."""
        found: List[Optional[Match[str]]] = []
        while len(found) < len(lines) and not self.has_given_up:
            if self._search_on(lines, found):
                continue
            alone: List[Optional[Match[str]]] = []  # the time may have gone to the lines before
            if not self._search_on(lines[len(found):len(found) + 1], alone):
                self.slow_lines += 1
                alone = [None]
            found += alone
        return found + [None] * (len(lines) - len(found))

    def _search_on(self, lines: List[str], found: List[Optional[Match[str]]]) -> bool:
        """Search in the lines of which nothing was found yet; False where the time was up before the last one."""
        search, append = self._search, found.append
        try:
            try:
                _timer.arm(self._seconds)
                for line in lines[len(found):]:
                    append(search(line))
            finally:
                _timer.disarm()
        except _TimeIsUp:
            _timer.disarm()  # it may have been raised on the way to the line above
            return len(found) == len(lines)
        return True
