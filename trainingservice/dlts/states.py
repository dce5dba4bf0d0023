"""What DLTS says of a job, as an observation. Pure functions; facts from the reference of the platform."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

_STATUS = {
    "unapproved": TrialJobStatus.WAITING, "queued": TrialJobStatus.WAITING, "scheduling": TrialJobStatus.WAITING,
    "running": TrialJobStatus.RUNNING, "pausing": TrialJobStatus.RUNNING, "paused": TrialJobStatus.RUNNING,
    # told to end, and its processes may still run: the end is seen with killed
    "killing": TrialJobStatus.RUNNING,
    "finished": TrialJobStatus.SUCCEEDED, "failed": TrialJobStatus.FAILED, "error": TrialJobStatus.FAILED,
    "killed": TrialJobStatus.SYS_CANCELED,
}
_PAUSED = "Somebody paused the job in the dashboard. A trial cannot be paused, so the trial is ended."
_MESSAGES = {
    # each job begins so; where it stays so, the cluster writes the reason (a quota) into the details
    "unapproved": ("platform_queue", "The cluster has not processed the job yet."),
    "pausing": ("platform_held", _PAUSED),
    "paused": ("platform_held", _PAUSED),
    "killed": ("stopped_on_platform", "The job was killed on the cluster."),
    "failed": ("platform_failed", "The job failed."),
    "error": ("platform_failed", "The cluster gave up on the job."),
}
PAUSED = frozenset({"pausing", "paused"})


def observed_record(record: Mapping[str, Any]) -> Observation:
    """From a job's record (v2)."""
    word = str(record.get("jobStatus") or "")
    status = _STATUS.get(word, TrialJobStatus.UNKNOWN)
    message: str = _reason(*_MESSAGES[word], word) if word in _MESSAGES else ""
    if status is TrialJobStatus.UNKNOWN:
        message = _reason("platform_state_unknown",
                          "The cluster reports a state of the job that NNI Web does not know "
                          f"({word or 'none'}).", word)
    details = record.get("jobStatusDetail")
    first = details[0] if isinstance(details, list) and details and isinstance(details[0], dict) else {}
    if status is TrialJobStatus.WAITING and first.get("message"):
        # an unapproved job with a message is one that is over the user's quota
        message = _reason("platform_quota" if word == "unapproved" else "platform_queue",
                          f"Waits on the cluster: {str(first['message'])[:300]}", word)
    return Observation(status, message=message, start_time=_seconds(first.get("startedAt")),
                       end_time=_seconds(first.get("finishedAt")))


def _reason(code: str, said: str, word: str) -> Reason:
    return Reason(code, said=said, platform="DLTS", cause=word)


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp() if text else None
    except ValueError:
        return None
