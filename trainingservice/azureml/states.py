"""The statuses of Azure ML's jobs, every value the service has, and what they are here."""

from __future__ import annotations

from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

#: Compared without regard to letter case.
STATUSES = {
    "notstarted": TrialJobStatus.WAITING, "starting": TrialJobStatus.WAITING, "provisioning": TrialJobStatus.WAITING,
    "preparing": TrialJobStatus.WAITING, "queued": TrialJobStatus.WAITING, "scheduled": TrialJobStatus.WAITING,
    "running": TrialJobStatus.RUNNING,
    # the trial's process has ended, and its outputs are being stored
    "finalizing": TrialJobStatus.RUNNING,
    "cancelrequested": TrialJobStatus.RUNNING,
    "completed": TrialJobStatus.SUCCEEDED, "failed": TrialJobStatus.FAILED, "canceled": TrialJobStatus.SYS_CANCELED,
    # it may come back to any earlier state
    "notresponding": TrialJobStatus.UNKNOWN, "paused": TrialJobStatus.UNKNOWN, "unknown": TrialJobStatus.UNKNOWN,
}
_MESSAGES = {
    "provisioning": ("platform_prepares", "Waits until the compute has started a node, which takes minutes."),
    "preparing": ("platform_prepares", "Waits until the image is ready, which takes minutes the first time."),
    "queued": ("platform_queue", "Waits in the queue of the compute."),
    "scheduled": ("platform_queue", "Waits for the time for which the workspace has scheduled it."),
    "canceled": ("stopped_on_platform", "The job was canceled in the workspace."),
    "failed": ("platform_failed", "The job failed."),
    "notresponding": ("machine_unreachable", "The job's node does not answer at the moment."),
    "paused": ("platform_held", "The job is paused in the workspace."),
    "unknown": ("platform_state_unknown", "The workspace does not know the job's state."),
}


def of_azure(code: str, said: str, cause: str) -> Reason:
    """What the workspace says of a job, as a reason."""
    return Reason(code, said=said, platform="Azure ML", cause=cause)


def observed_status(word: str) -> Observation:
    """A word that is not known here is UNKNOWN, with that sentence."""
    status = STATUSES.get(word.lower(), TrialJobStatus.UNKNOWN)
    known = _MESSAGES.get(word.lower())
    message: str = of_azure(*known, word) if known is not None else ""
    if status is TrialJobStatus.UNKNOWN and not message:
        message = of_azure("platform_state_unknown",
                           "The workspace reports a state of the job that NNI Web does not know "
                           f"({word or 'none'}).", word)
    return Observation(status, message=message)
