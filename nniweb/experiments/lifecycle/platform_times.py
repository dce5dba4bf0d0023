"""Times that a platform's service says of a job, by a clock that is not ours: used where they can be true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeGuard

from nniweb.experiments.models import Attempt
from trainingservice.trial_job import TrialJobDetail

#: A job's two times may be told as whole seconds, and further apart than ours by that much.
_CLOCK_STEP = 1.0

def times_of(detail: TrialJobDetail) -> dict[str, float]:
    """For ``Attempt.observed_end``: "started" and "ended", in seconds since 1970, where the service says them."""
    times = {"started": detail.start_time, "ended": detail.end_time}
    return {name: float(at) for name, at in times.items() if at is not None and _is_time(at)}


def began_at(start_time: object, attempt: Attempt, now: datetime) -> datetime:
    """When a job that is seen running began: as its service says, else now."""
    return _within(attempt.created_at, start_time, now) or now


def ended_at(observed: Mapping[str, Any], attempt: Attempt, now: datetime) -> datetime:
    """When a job ended whose end nobody but the platform tells: as its service says, else when that was seen first."""
    seen = min(attempt.observed_end_at or now, now)
    return _within(attempt.started_at or attempt.created_at, observed.get("ended"), seen) or seen


def duration(observed: Mapping[str, Any], attempt: Attempt, end: datetime) -> float | None:
    """Seconds that a job ran whose keeper cannot say it any more, or that had none; None where it never began.

    ``end``: of ``ended_at``. Of a keeper's trial from the start that the keeper told.
    """
    started, ended = observed.get("started"), observed.get("ended")
    if not attempt.journal_id and started is not None and ended is not None and \
            0 <= ended - started <= (end - attempt.created_at).total_seconds() + _CLOCK_STEP:
        return float(ended - started)  # by one clock
    return None if attempt.started_at is None else max(0.0, (end - attempt.started_at).total_seconds())


def _within(earliest: datetime, at: object, latest: datetime) -> datetime | None:
    if not _is_time(at):
        return None
    try:
        time = datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return time if earliest <= time <= latest else None


def _is_time(at: object) -> TypeGuard[float]:
    return isinstance(at, (int, float)) and not isinstance(at, bool) and math.isfinite(at)
