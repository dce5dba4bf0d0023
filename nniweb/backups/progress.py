"""How far a backup is, for whoever waits at a terminal: said each few seconds, with an estimate of the rest."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds between two sentences, and until the first one: what is done by then needs none.
EACH = 5.0

Say = Callable[[str], object]


class Progress:
    """Of one part of the work. Used by one thread at a time."""

    def __init__(self, what: str, total: float, say: Say, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``total``: bytes, estimated where they are not known before."""
        self._what, self._total, self._say, self._monotonic = what, total, say, monotonic
        self._began = self._said_at = monotonic()
        self._done = 0.0

    def at(self, done: float) -> None:
        """So many bytes are done."""
        self._done = max(self._done, done)
        now = self._monotonic()
        if now - self._said_at >= EACH:
            self._said_at = now
            self._say(self._sentence(now - self._began))

    def add(self, count: float) -> None:
        """So many bytes more are done."""
        self.at(self._done + count)

    def _sentence(self, passed: float) -> str:
        # an estimate may be too low
        share = min(0.99, self._done / self._total) if self._total > 0 else 0.0
        said = f"{self._what}: {self._done / 1e6:,.0f} of about {self._total / 1e6:,.0f} MB ({share:.0%})"
        return f"{said}, about {in_time(passed * (1 - share) / share)} left" if share >= 0.01 else said


def in_time(seconds: float) -> str:
    """Such as "40 s", "12 min" or "3.5 h"."""
    if seconds < 90:
        return f"{max(1.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def nothing(_: str) -> None:
    """For whoever is not told."""
