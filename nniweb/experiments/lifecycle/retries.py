"""Whether a trial whose attempt failed is tried again, by its experiment's ``retry``.

A retry is another attempt of the same trial, with the same parameters: it does not count towards
maxTrialNumber, and the tuner hears only how the last attempt ended. What earlier attempts reported stays visible.
"""

from nniweb.experiments.models import Attempt, Checkpoint, Experiment
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from trainingservice.reasons import code_of
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Keys of ``Experiment.retry``: which kind of failure -> how many more attempts a trial gets for it.
ON_PLATFORM_FAILURE, ON_FAILURE = "onPlatformFailure", "onFailure"
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
    most = int(experiment.retry.get(kind, 0))
    # that of a paused experiment is due, and waits until it is resumed
    if not most or experiment.target == ExperimentTarget.STOP or experiment.status == ExperimentStatus.ERROR:
        return None
    ends = Attempt.objects.filter(trial_id=attempt.trial_id).exclude(
        end_reason__in=[SUSPENDED, contract.FROZEN]).values_list("end_reason", flat=True)
    number = sum((end == contract.EXITED) == (kind == ON_FAILURE) for end in ends)
    return (number, most) if number <= most else None
