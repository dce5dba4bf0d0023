"""Wakes one thread: at once, or within a time, so that what need not be acted on at once is acted on together."""

from __future__ import annotations

import threading
import time


class CoalescingEvent:
    """Rung from any thread, waited for by one."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._is_urgent = False
        self._later: float | None = None  # monotonic; None: nobody has rung for later

    def ring(self, within: float = 0.0) -> None:
        """Have the waiting thread woken at once, or within so many seconds."""
        due = time.monotonic() + within
        with self._changed:
            if within <= 0.0:
                self._is_urgent = True
            elif self._later is None or due < self._later:
                self._later = due
            else:
                return
            self._changed.notify()

    def clear(self) -> bool:
        """What is due is about to be acted on; what was rung for later stays. Whether some of that was due."""
        with self._changed:
            self._is_urgent = False
            is_due = self._later is not None and time.monotonic() >= self._later
            if is_due:
                self._later = None
            return is_due

    def wait(self, timeout: float) -> bool:
        """Wait until something is due, at most so many seconds. Whether something is."""
        until = time.monotonic() + timeout
        with self._changed:
            while True:
                now = time.monotonic()
                if self._is_urgent or self._later is not None and now >= self._later:
                    return True
                if now >= until:
                    return False
                self._changed.wait((until if self._later is None else min(until, self._later)) - now)
