"""What a keeper's last word means: EXIT_FILE or its ``ended`` entry as a trial job's status and reason."""

from __future__ import annotations

import math
from typing import Any

from trainingservice.keeper.agent_client import ExitDocument
from trainingservice.keeper.out_of_memory import read_out_of_memory, reason_for
from trainingservice.limited_json import storable
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Characters of a text that are kept, and seconds since 1970 after which nothing has ended.
MOST_CHARACTERS, LATEST = 10_000, 1e11


def read_exit(told: Any) -> ExitDocument:
    """How a trial ended, as EXIT_FILE or a termination message tells it: the trial may be able to write those.

    What is of another kind than it should be counts as not told.
    """
    raw = told if isinstance(told, dict) else {}
    return {"reason": read_text(raw.get("reason")), "message": read_text(raw.get("message")),
            "last_lines": read_text(raw.get("last_lines")), "exit_code": _number(raw.get("exit_code")),
            "signal": _number(raw.get("signal")), "at": _seconds(raw.get("at")),
            "duration": _seconds(raw.get("duration"))}


def read_text(told: Any) -> str:
    """A text that somebody else tells, as it can be stored; "" for what is none."""
    return storable(told[:MOST_CHARACTERS]) if isinstance(told, str) else ""


def _number(told: Any) -> int | None:
    is_one = isinstance(told, int) and not isinstance(told, bool) and abs(told) < 2**31
    return told if is_one else None


def _seconds(told: Any) -> float:
    is_one = isinstance(told, int | float) and 0 <= told <= LATEST and math.isfinite(told)
    return float(told) if is_one else 0.0


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


def observed_exit(exit_document: Any) -> Observation:
    """The end that EXIT_FILE (or an ``ended`` entry) tells of.

    A trial that ended by itself keeps its own status even when a cancel was under way; one that its
    keeper stopped is canceled, whatever exit code it made of the signal.
    """
    end = read_exit(exit_document)
    status, message = classify_exit(end["reason"], end["exit_code"], end["signal"], end["message"],
                                    out_of_memory=exit_document.get("out_of_memory"))
    started = max(0.0, end["at"] - end["duration"]) if end["at"] and end["duration"] else None
    return Observation(status, message=message, exit_code=end["exit_code"], start_time=started or None,
                       end_time=end["at"] or None,
                       ended_by_itself=end["reason"] in (contract.EXITED, contract.NOT_STARTED, contract.TIME_LIMIT))


def _why_it_failed(exit_code: int | None, signal: int | None, last_words: str) -> Reason:
    if signal is None and exit_code is not None and exit_code > 128:
        signal = exit_code - 128  # a shell reports a signalled command this way
    if signal is not None:
        return Reason("signal", signal=signal, last_words=last_words)
    if exit_code in (126, 127):
        return Reason("not_executable" if exit_code == 126 else "command_not_found", last_words=last_words)
    return Reason("exit_code", exit_code=exit_code, last_words=last_words)
