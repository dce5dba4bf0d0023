"""What OpenPAI says of a job, as an observation. Pure functions; facts from the reference of the platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

_STATUS = {
    "WAITING": TrialJobStatus.WAITING,
    "RUNNING": TrialJobStatus.RUNNING,
    # told to stop, and its processes may still run: the end is seen with STOPPED
    "STOPPING": TrialJobStatus.RUNNING,
    "SUCCEEDED": TrialJobStatus.SUCCEEDED,
    "FAILED": TrialJobStatus.FAILED,
    "STOPPED": TrialJobStatus.SYS_CANCELED,
}
#: The cluster's own exit codes, as far as they tell a person something.
_EXIT_CODES = {
    137: "its container was killed, often because the node ran out of memory",
    220: "a command was not found in the image",
    252: "the cluster can never schedule it, because no node has what it asks for",
    254: "the image was not found or cannot be pulled; correct dockerImage",
    -1000: "the node evicted it", -1001: "its node was lost", -1003: "the cluster preempted it for another job",
    -1100: "the cluster could not start it",
    -1200: "its container used more memory than trialMemorySize allows",
}
#: Their codes here; others are ``platform_failed``.
_CODES = {220: "launch_failed", 252: "never_scheduled", 254: "image_missing", -1000: "evicted",
          -1001: "node_failed", -1003: "preempted", -1100: "launch_failed", -1200: "out_of_memory"}
#: Those of which a trial's keeper cannot know.
_NOT_THE_COMMANDS_DOING = frozenset({-1000, -1001, -1003, -1200})


def of_openpai(code: str, said: str, cause: str = "") -> Reason:
    """What the cluster says of a job, as a reason."""
    return Reason(code, said=said, platform="OpenPAI", **({"cause": cause} if cause else {}))


def observed_row(row: Mapping[str, Any]) -> Observation:
    """From a row of the list of jobs. Without exit code and reasons: those are in the job's detail."""
    state = str(row.get("state") or "")
    status = _STATUS.get(state, TrialJobStatus.UNKNOWN)
    message: str = "" if status is not TrialJobStatus.UNKNOWN else of_openpai(
        "platform_state_unknown", "The cluster reports a state of the job that NNI Web does not know "
                                  f"({state or 'none'}).",
        state)
    if state == "STOPPED":
        message = of_openpai("stopped_on_platform", "The job was stopped on the cluster.")
    return Observation(status, message=message, start_time=_seconds(row.get("launchedTime")),
                       end_time=_seconds(row.get("completedTime")))


def observed_detail(document: Mapping[str, Any]) -> Observation:
    """From a job's detail: also the exit code of the user's own command, the node, and why it failed."""
    job = document.get("jobStatus")
    job = job if isinstance(job, dict) else {}
    seen = observed_row(job)
    started = _seconds(job.get("appLaunchedTime")) or seen.start_time
    seen = replace(seen, start_time=started, machine=_node(document))
    if not seen.status.is_end:
        return seen
    own = _own_exit_code(job)
    code = job.get("appExitCode")
    seen = replace(seen, exit_code=own if own is not None else 0 if code == 0 else None)
    if seen.status is TrialJobStatus.FAILED:
        why = _why(job, own, code)
        seen = replace(seen, message=why, cause=why if code in _NOT_THE_COMMANDS_DOING else "")
    return seen


def _own_exit_code(job: Mapping[str, Any]) -> int | None:
    """Of the command itself; the cluster turns it into a code of its own (mostly 255)."""
    messages = job.get("appExitMessages")
    runtime = messages.get("runtime") if isinstance(messages, dict) else None
    code = runtime.get("originUserExitCode") if isinstance(runtime, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _why(job: Mapping[str, Any], own: int | None, code: Any) -> Reason:
    known = _EXIT_CODES.get(code) if isinstance(code, int) else None
    # a killed container is told by both codes
    if own not in (None, 0) and (known is None or code in (220, 137) and own != code):
        return of_openpai("platform_failed", f"The trial ended with exit code {own}.", str(own))
    diagnostics = " ".join(str(job.get("appExitDiagnostics") or "").split())
    what = f"The job failed: {known} (exit code {code})." if known else f"The job failed with exit code {code}."
    said = f"{what} Message of the cluster: {diagnostics[:300]}" if diagnostics else what
    # the diagnostics hold what Kubernetes said of the container; the code alone comes of any SIGKILL
    is_memory = code == 137 and "oomkilled" in diagnostics.lower()
    return of_openpai("out_of_memory" if is_memory else _CODES.get(code, "platform_failed"), said, str(code))


def _node(document: Mapping[str, Any]) -> str:
    roles = document.get("taskRoles")
    for role in roles.values() if isinstance(roles, dict) else ():
        for task in role.get("taskStatuses") or []:
            if task.get("containerNodeName"):
                return str(task["containerNodeName"])
    return ""


def _seconds(milliseconds: Any) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) and milliseconds > 0 else None
