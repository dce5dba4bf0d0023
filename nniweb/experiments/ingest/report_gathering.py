"""For how many seconds keepers gather metrics and output before they send them.

A keeper sends what is new at once, as long as this web takes that. Where more reports with entries come than it takes
easily, or where they wait for their answers, it asks keepers to gather: a report of several metrics costs hardly more
than one of a single metric. Each web decides for the reports that it takes.
"""

import random
import threading
import time
from collections.abc import Callable

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.models import Attempt
from nniweb.experiments.models.trial import TrialTarget

#: So many reports with entries a second a web takes before it asks keepers to gather; and so many, where they wait for
#: longer than these seconds. Of fewer, gathering would change little.
TOGETHER, AT_LEAST, SLOW = 400.0, 50.0, 0.1
#: Seconds that keepers gather at first, and at most; and at most where somebody watches.
FIRST, LONGEST, OF_WATCHED = 0.5, 10.0, 1.0
#: So many times as long they gather next where reports wait; and at least so many times as long as these waited: a
#: keeper has one report under way, so it has gathered for that time anyway.
GROWN, OF_WAIT = 1.12, 2.0
#: Seconds of waiting after which keepers are asked for more at once, not only when reports were counted.
LATE = 0.5
#: Seconds over which reports are counted.
COUNTED_FOR = 1.0
#: By so much less they gather when not even half of TOGETHER came.
EASED = 0.9
#: Shortened at random by up to this part: keepers that have come at once do not stay together.
SPREAD = 0.2


class Gathering:
    """What this process asks for now. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic,
                 chance: Callable[[], float] = random.random) -> None:
        self._monotonic, self._chance = monotonic, chance
        self._lock = threading.Lock()
        self._since, self._came = monotonic(), 0
        self._waits, self._waited = 0, 0.0
        #: Before it is shortened at random. 0: nothing is gathered.
        self.seconds = 0.0

    def came(self, reports: int) -> None:
        """So many reports with entries have come."""
        with self._lock:
            self._came += reports
            now = self._monotonic()
            if (counted_for := now - self._since) < COUNTED_FOR:
                return
            self.seconds = _adjusted(self.seconds, self._came / counted_for, self._waited / max(1, self._waits))
            self._since, self._came, self._waits, self._waited = now, 0, 0, 0.0

    def waited(self, seconds: float) -> None:
        """The oldest report of a group has waited so long for its answer."""
        with self._lock:
            self._waits, self._waited = self._waits + 1, self._waited + seconds
            if seconds > LATE and self._came > AT_LEAST:  # the next keepers hear of it now
                self.seconds = max(self.seconds, min(OF_WAIT * seconds, LONGEST))

    def seconds_for(self, attempt: ReportingAttempt) -> float:
        """Seconds for which a keeper that has just brought entries shall gather the next ones; 0 where it is to send
        them at once, as where it begins, ends or is to be stopped.
        """
        if not self.seconds or attempt.target != TrialTarget.RUN or attempt.stage == Attempt.Stage.ENDED \
                or not attempt.has_started:
            return 0.0
        seconds = min(self.seconds, OF_WATCHED) if attempt.is_watched else self.seconds
        return round(seconds * (1.0 - SPREAD * self._chance()), 2)


def _adjusted(seconds: float, rate: float, wait: float) -> float:
    """The next seconds, after reports with entries came at this rate (of each second) and waited so long."""
    is_slow = wait > SLOW and rate > AT_LEAST
    if rate > TOGETHER or is_slow:
        grown = max(seconds, FIRST) * min(max(rate / TOGETHER, GROWN if is_slow else 1.0), 2.0)
        return min(max(grown, OF_WAIT * wait if is_slow else 0.0), LONGEST)
    if rate < TOGETHER / 2 and wait < SLOW / 2:
        seconds *= EASED
        return seconds if seconds >= FIRST / 2 else 0.0
    return seconds


#: Of this process.
gathering = Gathering()
