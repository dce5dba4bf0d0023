"""What a keeper's last word means: EXIT_FILE or its ``ended`` entry as a trial job's status and reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainingservice.keeper.out_of_memory import read_out_of_memory, reason_for
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def classify_exit(reason: str | None, exit_code: int | None, signal: int | None, said: str = "",
                  last_words: str = "", out_of_memory: Any = None) -> tuple[TrialJobStatus, str]:
    """The status and the message of an end, whoever may have wanted the trial stopped.

    ``reason``: one of contract.END_REASONS. ``said``: the keeper's own sentence. ``last_words``: the last line that
    the trial wrote to stderr. ``out_of_memory``: what the keeper says of that, see ``read_out_of_memory``.
    """
    if reason == contract.TIME_LIMIT:
        return TrialJobStatus.EARLY_STOPPED, Reason("time_limit")
    if reason == contract.STOPPED:
        return TrialJobStatus.SYS_CANCELED, said or Reason("keeper_stopped")
    if reason == contract.EXITED:
        if exit_code == 0:
            return TrialJobStatus.SUCCEEDED, ""
        if (told := read_out_of_memory(out_of_memory)) is not None:
            return TrialJobStatus.FAILED, reason_for(told)
        return TrialJobStatus.FAILED, _why_it_failed(exit_code, signal, last_words)
    if reason == contract.NOT_STARTED:
        return TrialJobStatus.FAILED, Reason("not_started", said=said, last_words=last_words)
    return TrialJobStatus.FAILED, Reason("keeper_lost", said=said, last_words=last_words)


def observed_exit(exit_document: Mapping[str, Any]) -> Observation:
    """The end that EXIT_FILE (or an ``ended`` entry) tells of.

    A trial that ended by itself keeps its own status even when a cancel was under way; one that its
    keeper stopped is canceled, whatever exit code it made of the signal.
    """
    reason, code = exit_document.get("reason"), exit_document.get("exit_code")
    status, message = classify_exit(reason, code, exit_document.get("signal"), str(exit_document.get("message") or ""),
                                    out_of_memory=exit_document.get("out_of_memory"))
    end_time = exit_document.get("at")
    duration = exit_document.get("duration")
    started = end_time - duration if end_time and duration else None
    return Observation(status, message=message, exit_code=code, start_time=started, end_time=end_time,
                       ended_by_itself=reason in (contract.EXITED, contract.NOT_STARTED, contract.TIME_LIMIT))


def _why_it_failed(exit_code: int | None, signal: int | None, last_words: str) -> Reason:
    if signal is None and exit_code is not None and exit_code > 128:
        signal = exit_code - 128  # a shell reports a signalled command this way
    if signal is not None:
        return Reason("signal", signal=signal, last_words=last_words)
    if exit_code in (126, 127):
        return Reason("not_executable" if exit_code == 126 else "command_not_found", last_words=last_words)
    return Reason("exit_code", exit_code=exit_code, last_words=last_words)
