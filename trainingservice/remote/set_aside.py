"""A machine on which submissions fail one after the other gets none for a while; others take its share."""

from __future__ import annotations

from collections.abc import Callable

from trainingservice.reasons import Reason

#: A machine on which so many submissions in a row failed gets none for this long (seconds, doubled up to the second).
SET_ASIDE_AFTER, SET_ASIDE = 3, (60.0, 900.0)


class SetAside:
    """For one machine. Any method may be called from any thread; one of them notes how submissions went."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.failures = 0  #: submissions in a row that failed
        self._times = 0
        self._until = 0.0
        self._reason = ""

    def problem(self) -> str:
        """Why nothing is submitted there now, a sentence; "" where it is not set aside."""
        left = self._until - self._monotonic()
        return "" if left <= 0 else Reason("machine_set_aside", said=(
            f"It gets no trials for {left:.0f} s, because {SET_ASIDE_AFTER} submissions in a row failed there: "
            f"{self._reason}"))

    def worked(self) -> None:
        self.failures = self._times = 0

    def failed(self, error: Exception) -> bool:
        """Whether the machine is set aside by this one."""
        self.failures += 1
        if self.failures < SET_ASIDE_AFTER:
            return False
        first, longest = SET_ASIDE
        self._reason = str(error)
        self._until = self._monotonic() + min(longest, first * 2.0 ** self._times)
        self._times += 1
        self.failures = 0
        return True
