"""When a platform is asked: seldom while nothing happens, soon after something did, later and later after faults."""

from __future__ import annotations

from trainingservice.errors import TemporaryError
from trialkeeper.back_off import back_off


def pause_after(failures: int, limits: tuple[float, float], fault: TemporaryError) -> float:
    """Seconds until the next try after so many failures in a row; ``limits``: first and longest pause.

    What the platform itself asks for counts.
    """
    if fault.retry_after is not None:
        return fault.retry_after
    return back_off(failures - 1, limits)


class PollSchedule:
    """Not for several threads at once. ``now`` is monotonic seconds everywhere."""

    def __init__(self, interval: tuple[float, float], back_off: tuple[float, float]) -> None:
        """Shortest and longest pause between two questions; first and longest pause after a fault, in seconds."""
        self._interval, self._back_off = interval, back_off
        self._pause = interval[0]
        self._failures = 0
        #: When the next question is due; infinity while there is nothing to ask about.
        self.next = float("inf")
        #: What kept the last question from being answered, a sentence; "" where it was answered.
        self.fault = ""
        #: Seconds since 1970 since when none was answered; None while the platform answers.
        self.unanswered_since: float | None = None

    def within(self, now: float, seconds: float) -> bool:
        """Something happened on the platform: ask in so many seconds at the latest, and then often.

        True where that is sooner than it was to be asked.
        """
        is_sooner = now + seconds < self.next
        self.next = min(self.next, now + seconds)
        self._pause = self._interval[0]
        return is_sooner

    def after_a_deed(self, now: float) -> None:
        """We did something there: its effect is seen a shortest pause later."""
        self.within(now, self._interval[0])

    def answered(self, now: float, *, changed: bool) -> None:
        self._failures, self.fault, self.unanswered_since = 0, "", None
        shortest, longest = self._interval
        self._pause = shortest if changed else min(longest, self._pause * 1.5)
        self.next = now + self._pause

    def failed(self, now: float, clock: float, fault: TemporaryError) -> None:
        """``clock``: seconds since 1970."""
        self._failures += 1
        self.next = now + pause_after(self._failures, self._back_off, fault)
        self.fault = fault.reason
        if self.unanswered_since is None:
            self.unanswered_since = clock
