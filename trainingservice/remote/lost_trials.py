"""What is said of a trial whose machine does not answer, or has lost its files."""

from __future__ import annotations

from trainingservice.polling.service import Observation
from trainingservice.reasons import Reason, because_of
from trainingservice.remote.machines import RemoteMachine
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

#: A trial on a machine that has not answered for so many seconds is UNKNOWN.
UNKNOWN_AFTER = 10.0


def of_machine(code: str, said: str, problem: str = "") -> Reason:
    """A reason that a machine gives; ``problem``: what it comes of."""
    return Reason(code, said=said, platform="remote", **because_of(problem))


def on_removed_machine(address: str) -> Observation:
    """Of a trial whose machine is no longer in the cluster's settings."""
    return Observation(TrialJobStatus.FAILED, ended_by_itself=True, message=of_machine(
        "end_unknown", f"Its machine {address} is no longer in machineList, so the state of the trial is not known. "
                       "Add the machine again and rerun the trial."))


def on_silent_machine(machine: RemoteMachine, silent: float, lost_after: float) -> Observation | None:
    """Of a trial whose machine has not answered for ``silent`` seconds: an end after ``lost_after``; None: nothing new
    yet.
    """
    problem = machine.problem()
    if silent >= lost_after:
        return Observation(TrialJobStatus.FAILED, ended_by_itself=True, message=of_machine(
            "node_failed", f"Machine {machine.name} could not be reached for {silent:.0f} s (lostAfter), so the trial "
                           f"counts as lost: {problem}", problem))
    if silent >= UNKNOWN_AFTER and not machine.is_connected:
        return Observation(TrialJobStatus.UNKNOWN, message=of_machine(
            "machine_unreachable", f"Machine {machine.name} cannot be reached: {problem}", problem))
    return None


def on_emptied_machine(job: TrialJobDetail, machine: RemoteMachine) -> Observation | None:
    """Of a job that was there and whose folder went with all others; None: its own folder alone did, which somebody has
    removed, or it was never there.
    """
    then = job.platform_state.get("mark")
    if not then or not machine.mark or then == machine.mark or job.is_early_stopped is not None:
        return None
    return Observation(TrialJobStatus.FAILED, ended_by_itself=True, message=of_machine(
        "node_failed", f"Machine {machine.name} is back, but its files are missing: it was reinstalled, or its working "
                       "folder was emptied. The trial counts as lost. Rerun it if you still need it."))
