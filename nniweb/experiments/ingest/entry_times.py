"""Times of a journal's entries by the server's clock, as the database's driver wants them."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

#: The first moment that Python has a date for, in seconds since the epoch.
_FIRST_MOMENT = -62_135_596_800.0
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC


class ReportClock:
    """Corrects the times of one report's entries, which are in seconds since the epoch.

    ``offset``: how many seconds the trial machine's clock is behind the server's. ``now`` (UTC) is when the report
    came: no entry is later. What no date is becomes ``now``.
    """

    def __init__(self, offset: float, now: datetime) -> None:
        self.now = now
        self._offset = offset
        #: Makes a time what the database's driver wants.
        self.written: Callable[[float], Any] = self._for_sqlite() if connection.vendor == "sqlite" else (
            lambda at: for_database(self.corrected(at)))

    def corrected(self, at: float) -> datetime:
        """The entry's time."""
        try:
            found = datetime.fromtimestamp(at + self._offset, UTC)
        except (OverflowError, ValueError, OSError):
            return self.now
        return found if found < self.now else self.now

    def _for_sqlite(self) -> Callable[[float], str]:
        """As Django writes times, in a tenth of its time."""
        offset, latest, last = self._offset, self.now.timestamp(), str(for_database(self.now))
        second, written_second = -1, ""

        def written(at: float) -> str:
            nonlocal second, written_second
            moment = at + offset
            if not _FIRST_MOMENT <= moment < latest:
                return last
            whole = math.floor(moment)
            if whole != second:  # many entries of a report are of the same second
                second, written_second = whole, (_EPOCH + timedelta(seconds=whole)).isoformat(" ")
            return f"{written_second}.{int((moment - whole) * 1_000_000):06d}"

        return written


def clock_of_report(sent_at: float | None, now: datetime) -> ReportClock:
    """The trial machine's clock may be wrong: entries are moved by the difference that this report shows."""
    return ReportClock(now.timestamp() - sent_at if sent_at is not None else 0.0, now)


def for_database(at: datetime) -> Any:
    """A time (UTC) as the database's driver wants it."""
    if connection.vendor == "sqlite":
        return at.isoformat(" ")[:-6]  # less its +00:00
    return connection.ops.adapt_datetimefield_value(at)
