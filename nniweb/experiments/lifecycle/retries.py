"""Whether a trial whose attempt failed is tried again, by its experiment's ``retry``.

A retry is another attempt of the same trial, with the same parameters: it does not count towards
maxTrialNumber, and the tuner hears only how the last attempt ended. What earlier attempts reported stays visible.

Attempts that ran out of memory have a count of their own where ``retry`` names them. Else they count as what they are
besides: a command that failed, or a job that its platform ended.
"""

from nniweb.experiments.memory.memory_failures import would_run_out_again
from nniweb.experiments.models import Attempt, Checkpoint, Experiment
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from trainingservice.keeper.out_of_memory import memory_that_ran_out
from trainingservice.reasons import code_of
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Keys of ``Experiment.retry``: which kind of failure -> how many more attempts a trial gets for it.
ON_PLATFORM_FAILURE, ON_FAILURE, ON_OUT_OF_MEMORY = "onPlatformFailure", "onFailure", "onOutOfMemory"
#: ``Attempt.end_reason`` of a submission the platform will never take: the next one would fare no better.
REFUSED = "refused"
#: ... and of a run that the platform ended to run the job anew: no failure, and no retry.
SUSPENDED = "suspended"
#: Code of an end by a time limit of the platform: Slurm's of a job, for example.
_TIME_LIMIT = "platform_time_limit"


def kind_of_failure(status: TrialJobStatus, reason: str) -> str | None:
    """The key by which such an end is retried; None where it never is.

    ``onFailure``: the command ended by itself and said that it failed. ``onPlatformFailure``: it was not the
    command's doing (a machine lost, a keeper killed, a job that somebody else deleted, code that did not arrive).
    """
    if reason == REFUSED or status not in (TrialJobStatus.FAILED, TrialJobStatus.SYS_CANCELED):
        return None
    return ON_FAILURE if reason == contract.EXITED else ON_PLATFORM_FAILURE


def _would_come_no_further(attempt: Attempt, message: str) -> bool:
    """Whether a time limit of the platform ended the attempt before it had saved a checkpoint: the next one would begin
    at the same place, and be ended at the same place.
    """
    return code_of(message) == _TIME_LIMIT and not Checkpoint.objects.filter(
        attempt=attempt.pk, confirmed_at__isnull=False).exists()


def retries_left(attempt: Attempt, status: TrialJobStatus, reason: str, message: str) -> tuple[int, int] | None:
    """The number of the retry that is due and how many there may be; None where none is.

    ``attempt`` has just ended so, and its row says so. ``message``: why it has.
    """
    kind = kind_of_failure(status, reason)
    if kind is None or kind == ON_PLATFORM_FAILURE and _would_come_no_further(attempt, message):
        return None
    experiment = Experiment.objects.filter(trials__pk=attempt.trial_id).only("retry", "target", "status").get()
    has_own_count = ON_OUT_OF_MEMORY in experiment.retry
    if has_own_count and memory_that_ran_out(message):
        kind = ON_OUT_OF_MEMORY
    most = int(experiment.retry.get(kind, 0))
    if not has_own_count and memory_that_ran_out(message) == contract.GPU_MEMORY and _shared_gpus(attempt):
        most, kind, has_own_count = 1, ON_OUT_OF_MEMORY, True  # it was not the trial's doing: it was given too little
    # that of a paused experiment is due, and waits until it is resumed
    if not most or experiment.target == ExperimentTarget.STOP or experiment.status == ExperimentStatus.ERROR \
            or would_run_out_again(attempt, message):
        return None
    ends = Attempt.objects.filter(trial_id=attempt.trial_id).exclude(
        end_reason__in=[SUSPENDED, contract.FROZEN]).values_list("end_reason", "out_of_memory")
    number = sum(_kind_of_end(end, memory if has_own_count else None) == kind for end, memory in ends)
    return (number, most) if number <= most else None


def _shared_gpus(attempt: Attempt) -> bool:
    """Whether it shared its GPUs by memory."""
    return Attempt.objects.filter(pk=attempt.pk, gpu_memory__isnull=False).exists()


def _kind_of_end(reason: str, memory: str | None) -> str:
    """As what an attempt counts that ended so; what the platform ended is not told from what it failed to end."""
    return ON_OUT_OF_MEMORY if memory else ON_FAILURE if reason == contract.EXITED else ON_PLATFORM_FAILURE
