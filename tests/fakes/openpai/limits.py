"""How an OpenPAI rest-server limits its callers: express-rate-limit 5.1.1, which its lock file pins.

One window for all callers of a limiter, which begins with the server and is begun anew each time it is over. A call
counts whether it is refused or not. ``Retry-After`` is the length of the window, ``X-RateLimit-Reset`` the end of this
one. Recorded answers of the real one are in tests/recordings/openpai/limits.json.
"""

from __future__ import annotations

import email.utils
import math
import time
from collections import Counter
from collections.abc import Callable

from tests.fakes.http_double import Answer

TOO_MANY = "Too many requests, please try again later."


class Limiter:
    """Not for several threads at once. ``clock``: seconds since 1970."""

    def __init__(self, limit: int, window: float, clock: Callable[[], float] = time.time) -> None:
        self.limit, self.window, self._clock = limit, window, clock
        self._calls: Counter[str] = Counter()
        self.resets_at = clock() + window

    def counted(self, caller: str) -> tuple[dict[str, str], Answer | None]:
        """Headers for the answer to a call, and the answer itself where the call is one too many."""
        now = self._clock()
        if now >= self.resets_at:
            self._calls.clear()
            self.resets_at = now + self.window
        self._calls[caller] += 1
        headers = {"X-RateLimit-Limit": str(self.limit), "Date": email.utils.formatdate(now, usegmt=True),
                   "X-RateLimit-Remaining": str(max(0, self.limit - self._calls[caller])),
                   "X-RateLimit-Reset": str(math.ceil(self.resets_at))}
        if self._calls[caller] <= self.limit:
            return headers, None
        headers["Retry-After"] = str(math.ceil(self.window))
        return headers, Answer(429, TOO_MANY, "text/html; charset=utf-8", headers)
