"""From how a trial ended, as its keeper wrote it down, to a trial job's status."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from trainingservice.polling.job_record import Observation
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def observed_exit(exit_document: Mapping[str, Any]) -> Observation:
    """The end that EXIT_FILE (or an ``ended`` entry) tells of.

    A trial that ended by itself keeps its own status even when a cancel was under way; one that its
    keeper stopped is canceled, whatever exit code it made of the signal.
    """
    reason = exit_document.get("reason")
    code = exit_document.get("exit_code")
    number = exit_document.get("signal")
    said = str(exit_document.get("message") or "")
    status, message = TrialJobStatus.FAILED, said
    by_itself = reason in (contract.EXITED, contract.NOT_STARTED, contract.TIME_LIMIT)
    if reason == contract.EXITED:
        if code == 0:
            status = TrialJobStatus.SUCCEEDED
        elif not said:
            message = (f"The trial was ended by {_signal_name(number)}." if number
                       else f"The trial ended with exit code {code}.")
    elif reason == contract.TIME_LIMIT:
        status, message = TrialJobStatus.EARLY_STOPPED, said or "The trial ran into its time limit."
    elif reason == contract.STOPPED:
        status, message = TrialJobStatus.SYS_CANCELED, said or "The trial was stopped on its machine."
    elif reason == contract.NOT_STARTED:
        message = said or "The trial could not be started."
    else:
        message = said or "The trial's keeper was killed, so nobody knows how the trial ended."
    end_time = exit_document.get("at")
    duration = exit_document.get("duration")
    started = end_time - duration if end_time and duration else None
    return Observation(status, message=message, exit_code=code, start_time=started, end_time=end_time,
                       ended_by_itself=by_itself)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
