"""How many jobs an account may submit in an hour, and when the next one goes.

The server counts submissions in windows of an hour (its own default is 60, what its deployment sets is 3600). Each
answer to one says how many are left and when the window ends. ``Retry-After`` is no help: it is the window's length.
Half of a window's submissions go at once. The other half goes no faster than the window passes, so that an experiment
with short trials does not stand still for the rest of the hour.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from trainingservice.rest.rest_client import LONGEST_PAUSE, RestAnswer, retry_after_of
from trialkeeper.whole_number import whole_number

#: Seconds in which the server counts submissions.
WINDOW = 3600.0
#: The server ends its windows by a timer, which may be late.
_SHORTEST_PAUSE = 1.0
#: Answers that were given before the submission was counted: their headers are those of another limit.
_NOT_COUNTED = (401, 404, 413)


@dataclass(frozen=True)
class Allowance:
    """What is left of a limit. ``resets_in``: seconds until the window ends, by the server's own clock."""

    limit: int
    remaining: int
    resets_in: float

    @classmethod
    def of(cls, answer: RestAnswer) -> Allowance | None:
        """By the answer's headers, None where it has none."""
        headers = answer.headers
        limit, remaining, reset = (whole_number(headers.get(f"X-RateLimit-{name}", ""))
                                   for name in ("Limit", "Remaining", "Reset"))
        if limit is None or remaining is None or reset is None:
            return None
        try:
            now = email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
        except (KeyError, TypeError, ValueError):
            now = time.time()
        return cls(limit, remaining, min(LONGEST_PAUSE, max(_SHORTEST_PAUSE, reset - now)))


def pause_asked_for(answer: RestAnswer) -> float | None:
    """Seconds until the server takes calls again that it refused with 429; None: it does not say."""
    allowance = Allowance.of(answer)
    return allowance.resets_in if allowance is not None else retry_after_of(answer)


class SubmissionLimit:
    """What one account may still submit. May be used from several threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: Allowance | None = None
        self._heard_at = self._ends_at = 0.0

    def heard(self, answer: RestAnswer) -> None:
        """Told of each answer to a submission."""
        allowance = Allowance.of(answer)
        is_other_limit = answer.status == 429 and (retry_after_of(answer) or 0.0) < WINDOW
        if allowance is None or answer.status in _NOT_COUNTED or is_other_limit:
            return
        with self._lock:
            self._known, self._heard_at = allowance, self._monotonic()
            self._ends_at = self._heard_at + allowance.resets_in

    def waits(self) -> tuple[float, Allowance] | None:
        """Seconds until the next submission may go, and what is left by now; None: it may go at once."""
        with self._lock:
            known, now = self._known, self._monotonic()
            left = self._ends_at - now
            if known is None or left <= 0:
                return None
            if known.remaining > min(known.limit / 2, known.limit * left / WINDOW):
                return None
            # each of the rest has its part of what was left when the last one was taken
            due = self._heard_at + known.resets_in / (known.remaining + 1)
            if known.remaining == 0:
                due = self._ends_at
            if now >= due:
                return None
            return due - now, Allowance(known.limit, known.remaining, left)


def why_it_waits(where: str, user: str, pause: float, left: Allowance) -> str:
    """A sentence on a submission that waits for ``pause`` seconds."""
    rest = (f"{left.remaining} of them are left for the next {_span(left.resets_in)} and are spread over this time"
            if left.remaining else f"none is left for the next {_span(left.resets_in)}")
    return (f"{where} accepts {left.limit} submissions per hour from user {user}; {rest}. The next submission is sent "
            f"in {_span(pause)}. An administrator of the cluster can raise the limit (rate-limit-submit-job-per-hour).")


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
