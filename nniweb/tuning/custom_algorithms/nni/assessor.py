"""``nni.assessor``: the base class of users' assessors."""

from enum import Enum
from typing import Any

from nniweb.tuning.custom_algorithms.nni.recoverable import Recoverable


class AssessResult(Enum):
    """Good: the trial goes on. Bad: it is stopped."""

    Good = True
    Bad = False


class Assessor(Recoverable):
    """A subclass writes ``assess_trial``."""

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult:
        """Judge a running trial by all its results so far."""
        raise NotImplementedError(f"{type(self).__name__} has no assess_trial")

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        """A trial has ended; ``success`` where it was neither stopped nor failed."""
