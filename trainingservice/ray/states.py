"""What Ray says of a job, as an observation. Pure functions; words are those of its ``dashboard/modules/job``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from trainingservice.keeper.end_in_output import END_MARK, told_end
from trainingservice.keeper.keeper_exit import classify_exit, observed_exit
from trainingservice.polling.job_record import Observation
from trainingservice.ray.api import last_line_of
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED = "PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"
#: ``error_type`` of a job that had no room for as long as Ray lets one wait (15 minutes by default).
START_TIMEOUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
#: ``error_type`` of a job whose own command failed.
COMMAND_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"
#: ``error_type`` where Ray could not start the command, or failed itself while it ran or when it had ended.
COMMAND_START_ERROR = "JOB_ENTRYPOINT_COMMAND_START_ERROR"
#: Others -> code and sentence.
_FAULTS = {
    "RUNTIME_ENV_SETUP_FAILURE": ("launch_failed", "Ray could not make the runtime environment of the job."),
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": ("launch_failed", "Ray could not start the job."),
    COMMAND_START_ERROR: ("launch_failed", "Ray could not start the job's command, or lost sight of it."),
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": ("never_scheduled", "Ray has no node that can run the job."),
    "JOB_SUPERVISOR_ACTOR_DIED": ("node_failed", "The process that Ray ran the job under died, or its node did."),
    "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE": ("node_failed", "Ray lost the process that it ran the job under."),
}
#: Ray's words for a worker that its memory monitor or the kernel killed for want of memory.
_OUT_OF_MEMORY = ("NODE_OUT_OF_MEMORY", "OutOfMemoryError", "running low on memory", "out of memory")
_LONGEST_SAID = 400


def of_ray(code: str, said: str, cause: str = "") -> Reason:
    """What the cluster says of a job, as a reason."""
    return Reason(code, said=said, platform="Ray", **({"cause": cause} if cause else {}))


def kind_of_fault(row: Mapping[str, Any]) -> str:
    """``error_type`` of a job that failed; "" where there is none. Ray names it since 2.50."""
    return str(row.get("error_type") or "")


def observed_job(row: Mapping[str, Any]) -> Observation:
    """From a job's description. ``end_time`` comes with ends; Ray does not tell when a job began to run."""
    state, said = str(row.get("status") or ""), str(row.get("message") or "")
    machine = _host(row.get("driver_agent_http_address"))
    if state == PENDING:
        return Observation(TrialJobStatus.WAITING, message=of_ray(
            "platform_queue", f"Waits on Ray: {' '.join(said.split())[:_LONGEST_SAID] or 'it has not started yet.'}",
            state))
    if state == RUNNING:
        return Observation(TrialJobStatus.RUNNING, machine=machine)
    end_time = row["end_time"] / 1000 if isinstance(row.get("end_time"), int | float) and row["end_time"] else None
    if state == SUCCEEDED:
        return Observation(TrialJobStatus.SUCCEEDED, exit_code=0, machine=machine, end_time=end_time,
                           ended_by_itself=True)
    if state == STOPPED:
        return Observation(TrialJobStatus.SYS_CANCELED, machine=machine, end_time=end_time,
                           message=of_ray("stopped_on_platform", "The job was stopped on Ray.", state))
    if state == FAILED:
        return _failed(row, said, machine, end_time)
    return Observation(TrialJobStatus.UNKNOWN, message=of_ray(
        "platform_state_unknown",
        f"The cluster reports a state of the job that NNI Web does not know ({state[:100] or 'none'}).", state[:100]))


def with_told_end(seen: Observation, output: str) -> Observation:
    """An end with what the keeper printed of it; as it is where it printed nothing, or its attempt is another's."""
    end = told_end(output)
    if end is None or end.get("claimed"):
        return seen
    told = observed_exit(end)
    return Observation(told.status, message=told.message, exit_code=told.exit_code, machine=seen.machine,
                       start_time=told.start_time, end_time=seen.end_time or told.end_time,
                       ended_by_itself=told.ended_by_itself)


def last_lines_of(log: str, most: int = 500) -> str:
    """The end of a job's log for a sentence: without what Ray and the job's own shell write into it."""
    lines = [line for line in log[-20_000:].splitlines()
             if line.strip() and not line.startswith((END_MARK, "Running entrypoint for job "))
             and "Runtime env is setting up." not in line]
    return " ".join(" ".join(lines).split())[-most:]


def _failed(row: Mapping[str, Any], said: str, machine: str, end_time: float | None) -> Observation:
    kind = kind_of_fault(row)
    if kind == COMMAND_ERROR:
        code = row.get("driver_exit_code")
        exit_code = code if isinstance(code, int) else None
        _, message = classify_exit(contract.EXITED, 128 - exit_code if exit_code is not None and exit_code < 0
                                   else exit_code, None, last_words=last_lines_of(said.partition(":\n")[2]))
        return with_told_end(Observation(TrialJobStatus.FAILED, message=message, exit_code=exit_code, machine=machine,
                                         end_time=end_time), said)
    code_of_reason, sentence = _FAULTS.get(kind, ("platform_failed", "The job failed on Ray."))
    if code_of_reason == "node_failed" and any(words in said for words in _OUT_OF_MEMORY):
        code_of_reason, sentence = "out_of_memory", "Ray killed the job because its node ran out of memory."
    detail = _detail(said)
    reason = of_ray(code_of_reason, f"{sentence} Message of Ray: {detail}" if detail else sentence, kind or FAILED)
    # what its keeper cannot know; a command that never ran has no keeper
    cause = reason if code_of_reason in ("node_failed", "out_of_memory") else ""
    return Observation(TrialJobStatus.FAILED, message=reason, cause=cause, machine=machine, end_time=end_time)


def _detail(said: str) -> str:
    """The part of a message that tells something: a traceback's last line, or its beginning."""
    text = said.strip()
    if "Traceback (most recent call last)" in text:
        return last_line_of(text)
    return " ".join(text.split())[:_LONGEST_SAID]


def _host(address: Any) -> str:
    try:
        return urlsplit(str(address or "")).hostname or ""
    except ValueError:
        return ""
