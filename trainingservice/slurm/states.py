"""What Slurm says of a job, as an observation. Pure functions.

Source: the job states of Slurm's manual pages squeue and sacct. A state that is not known here says nothing about the
trial's end: unknown is not dead.
"""

from __future__ import annotations

import signal
from dataclasses import replace

from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason, together
from trainingservice.slurm.queue_rows import JobRow
from trainingservice.slurm.why_a_job_waits import why_it_waits
from trainingservice.trial_job_status import TrialJobStatus

#: It is in the queue, or about to start. State -> why it waits: code and words; PENDING's are squeue's reason.
_WAITING = {
    "CONFIGURING": ("platform_prepares", "Its node is being prepared (Slurm: CONFIGURING)."),
    "REQUEUED": ("platform_requeued", "Slurm queues it again."),
    "REQUEUE_FED": ("platform_requeued", "Slurm queues it again, on another cluster of the federation."),
    "REQUEUE_HOLD": ("platform_held", "Slurm queued it again and holds it; release it with scontrol release."),
    "SPECIAL_EXIT": ("platform_held", "Slurm queued it again and holds it because of its exit code; release it with "
                                      "scontrol release."),
    "RESV_DEL_HOLD": ("platform_held", "Its reservation was deleted, so Slurm holds it; release it with scontrol "
                                       "release."),
    "POWER_UP_NODE": ("platform_prepares", "Its node is being powered on."),
}
#: Something of it may run. State -> what to say; "" for nothing.
_RUNNING = {
    "RUNNING": "",
    "COMPLETING": "",
    "STAGE_OUT": "",
    "SIGNALING": "",
    "RESIZING": "",
    "SUSPENDED": "It is suspended on the cluster. Its processes do not run until Slurm resumes them.",
    "STOPPED": "It was stopped on the cluster (SIGSTOP). Its processes do not run until somebody resumes them.",
}
#: Ends that are not the command's doing, of which its keeper cannot know. State -> (status, code, why).
_TAKEN = {
    "TIMEOUT": (TrialJobStatus.FAILED, "platform_time_limit",
                "Slurm ended the job at its time limit. Set a longer timeLimit, or make the trial shorter."),
    "OUT_OF_MEMORY": (TrialJobStatus.FAILED, "out_of_memory",
                      "The job used more memory than it had asked for, and Slurm or the kernel ended it; set a larger "
                      "trialMemorySize."),
    "NODE_FAIL": (TrialJobStatus.FAILED, "node_failed", "The job's node failed, or Slurm lost contact with it."),
    "BOOT_FAIL": (TrialJobStatus.FAILED, "node_failed", "The job's node could not be started."),
    "LAUNCH_FAILED": (TrialJobStatus.FAILED, "launch_failed", "Slurm could not launch the job on its node."),
    "RECONFIG_FAIL": (TrialJobStatus.FAILED, "node_failed", "The job's node could not be configured for it."),
    "DEADLINE": (TrialJobStatus.FAILED, "platform_time_limit",
                 "The job could not end before its deadline, so Slurm removed it."),
    "PREEMPTED": (TrialJobStatus.SYS_CANCELED, "preempted",
                  "Slurm ended the job to make room for another one (preemption)."),
    "REVOKED": (TrialJobStatus.SYS_CANCELED, "stopped_on_platform",
                "The job was started on another cluster of the federation instead."),
}
#: What Slurm gives as the signal of a job whose output file it cannot open.
_NO_OUTPUT = 53
#: Why a job that its keeper did not get to run failed, where squeue tells.
_LAUNCH_REASONS = {
    "JobLaunchFailure": ("launch_failed", "Slurm could not launch it on its node"),
    "BadConstraints": ("never_scheduled", "no node has what it asks for"),
    "SystemFailure": ("platform_failed", "Slurm itself, a file system or the network has failed"),
    "InvalidAccount": ("platform_failed", "the cluster does not know its account"),
}


def of_slurm(code: str, said: str, cause: str) -> Reason:
    """What Slurm says of a job, as a reason. ``cause``: its state, or its own reason."""
    return Reason(code, said=said, platform="Slurm", cause=cause)


def observed(row: JobRow) -> Observation:
    """What a row says, without what the trial's keeper left."""
    if row.state == "PENDING":
        return Observation(TrialJobStatus.WAITING, message=why_it_waits(row.reason))
    if row.state in _WAITING:
        return Observation(TrialJobStatus.WAITING, message=of_slurm(*_WAITING[row.state], row.state))
    if row.state in _RUNNING:
        said = _RUNNING[row.state]
        return Observation(TrialJobStatus.RUNNING, message=of_slurm("platform_held", said, row.state) if said else "",
                           start_time=row.start, machine=row.node)
    end = _end(row)
    if end is None:
        return Observation(TrialJobStatus.UNKNOWN, message=of_slurm(
            "platform_state_unknown", "Slurm reports a state of the job that NNI Web does not know "
                                      f"({row.state or 'none'}).",
            row.state))
    return replace(end, start_time=row.start, end_time=row.end, machine=row.node)


def _end(row: JobRow) -> Observation | None:
    if row.state in _TAKEN:
        status, code, said = _TAKEN[row.state]
        why = of_slurm(code, said, row.state)
        return Observation(status, message=why, cause=why)
    if row.state == "COMPLETED":
        return Observation(TrialJobStatus.SUCCEEDED, message="", exit_code=0, ended_by_itself=True)
    if row.state == "CANCELLED":
        return Observation(TrialJobStatus.SYS_CANCELED, message=of_slurm(
            "stopped_on_platform", "The job was canceled on the cluster by somebody else (scancel). Rerun the trial if "
                                   "you still need it.", row.state))
    if row.state == "FAILED":
        if row.signal == _NO_OUTPUT:
            return Observation(TrialJobStatus.FAILED, message=of_slurm(
                "launch_failed", "Slurm could not write the job's output on its node: the node does not have "
                "workingFolder under the same path, or the user may not write there.", row.state))
        if row.signal:
            hint = "; often it had used more memory than it asked for" if row.signal == signal.SIGKILL else ""
            return Observation(TrialJobStatus.FAILED, message=of_slurm(
                "platform_failed", f"The job was ended by signal {row.signal}{hint}.", row.state))
        code, because = _LAUNCH_REASONS.get(row.reason, ("platform_failed", ""))
        return Observation(TrialJobStatus.FAILED, exit_code=row.exit_code, message=of_slurm(
            code, f"The job failed with exit code {row.exit_code}{f', because {because}' if because else ''}.",
            row.reason if because else row.state))
    return None


def with_last_word(seen: Observation, told: Observation | None) -> Observation:
    """An end as Slurm saw it, made better by the keeper's word (``told``; None where it left none).

    A trial that ended by itself ended so, whatever Slurm did to its job a moment later; that Slurm took its memory or
    its node is said beside it.
    """
    if told is None:
        return seen
    told = replace(told, machine=seen.machine, platform_state=seen.platform_state,
                   start_time=told.start_time or seen.start_time, end_time=told.end_time or seen.end_time)
    if seen.status is TrialJobStatus.SYS_CANCELED and told.status is TrialJobStatus.FAILED and told.exit_code is None:
        # the signal that ended its job met the trial first
        return replace(told, status=seen.status, message=seen.message, cause=seen.cause, ended_by_itself=False)
    if told.status is TrialJobStatus.SUCCEEDED or not seen.cause:
        was_stopped = told.status is TrialJobStatus.SYS_CANCELED and seen.status is TrialJobStatus.SYS_CANCELED
        return replace(told, message=seen.message) if was_stopped else told
    if told.ended_by_itself:
        return replace(told, message=together((told.message or "", seen.cause)), cause=seen.cause)
    return replace(told, status=seen.status, message=seen.message, cause=seen.cause)
