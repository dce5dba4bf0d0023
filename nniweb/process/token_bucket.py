"""A token bucket: a limit that takes a burst at once, and a steady rate after it."""

import time
from collections.abc import Callable


class TokenBucket:
    """Holds at most ``burst`` tokens and gains ``rate`` of them a second; full at first. Not thread-safe."""

    __slots__ = ("_at", "_burst", "_clock", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._tokens, self._at = burst, clock()

    def wait(self, tokens: float = 1.0) -> float:
        """Seconds in which what is missing to so many comes: 0 where nothing is, infinity where the rate is 0."""
        missing = tokens - self._filled()
        if missing <= 0:
            return 0.0
        return missing / self._rate if self._rate else float("inf")

    def take(self, tokens: float = 1.0) -> bool:
        """Take so many if they are there; whether they were."""
        if self._filled() < tokens:
            return False
        self._tokens -= tokens
        return True

    def spend(self, tokens: float) -> None:
        """Take so many in any case. What was not there is owed, and is paid by what comes."""
        self._tokens = self._filled() - tokens

    @property
    def is_full(self) -> bool:
        return self._filled() >= self._burst

    def _filled(self) -> float:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        return self._tokens
