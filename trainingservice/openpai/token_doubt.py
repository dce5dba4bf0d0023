"""Whether a token that the server refuses is to blame for it.

The server looks each token up in Kubernetes. While that is away it answers 401 "Your token is invalid" to all of them,
in the words that it has for a token that was revoked. What differs is how long that lasts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from trainingservice.errors import TemporaryError

#: A token is to blame that was refused so often, for so many seconds, and was not accepted between.
BLAME_AFTER_TIMES, BLAME_AFTER = 3, 60.0
#: Seconds after a refusal from which the next one begins anew: nothing was asked between, so nothing is known of it.
FORGET_AFTER = 300.0
#: Seconds until a token is tried again that was refused for the first times.
RETRY_AFTER_DOUBT = 5.0


class TokenDoubted(TemporaryError):
    """The server refuses the token, which may be its own fault. ``said``: its words."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message, retry_after=RETRY_AFTER_DOUBT)
        self.said = said


class TokenDoubt:
    """What was said of one account's token. May be used from several threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._times = 0
        self._since = self._last = 0.0

    def accepted(self) -> None:
        with self._lock:
            self._times = 0

    def refused(self) -> bool:
        """Told of a refusal; whether the token is to blame by now."""
        with self._lock:
            now = self._monotonic()
            if now - self._last > FORGET_AFTER:
                self._times = 0
            if self._times == 0:
                self._since = now
            self._times += 1
            self._last = now
            return self._times >= BLAME_AFTER_TIMES and now - self._since >= BLAME_AFTER
