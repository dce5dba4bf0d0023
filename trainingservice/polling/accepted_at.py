"""When a platform accepted a job: kept in ``platform_state``, so that it is known after a restart, too.

Not the time at which the job was asked for: it may have waited in our queue for as long as the platform was away.
"""

from __future__ import annotations

from typing import Any

from trainingservice.trial_job import Timestamp, TrialJobDetail

_KEY = "accepted_at"


def accepted_at(now: Timestamp) -> dict[str, Any]:
    """What ``start_job`` puts into the job's ``platform_state``."""
    return {_KEY: now}


def is_new(job: TrialJobDetail, now: Timestamp, seconds: float) -> bool:
    """Whether the platform accepted the job less than so many seconds ago: it may not show it yet."""
    accepted = job.platform_state.get(_KEY)
    return isinstance(accepted, int | float) and now - accepted < seconds
