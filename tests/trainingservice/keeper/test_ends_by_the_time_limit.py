"""What is said of a trial that its keeper ended because of maxTrialDuration."""

from __future__ import annotations

from trainingservice.keeper.keeper_exit import classify_exit
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def test_the_limit_is_named_and_not_what_was_left_of_it() -> None:
    """Of a trial that was frozen before, the keeper knows only the seconds that were left."""
    assert classify_exit(contract.TIME_LIMIT, None, 15, "it ran longer than 3.45769 s") == (
        TrialJobStatus.EARLY_STOPPED, Reason("time_limit"))
