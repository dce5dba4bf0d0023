"""Whether a trial whose attempt failed is tried again, by its experiment's ``retry``.

A retry is another attempt of the same trial, with the same parameters: it does not count towards
maxTrialNumber, and the tuner hears only how the last attempt ended. What earlier attempts reported stays visible.
"""

from nniweb.experiments.models import Attempt, Experiment
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Keys of ``Experiment.retry``: which kind of failure -> how many more attempts a trial gets for it.
ON_PLATFORM_FAILURE, ON_FAILURE = "onPlatformFailure", "onFailure"
#: ``Attempt.end_reason`` of a submission the platform will never take: the next one would fare no better.
REFUSED = "refused"
#: ... and of a run that the platform ended to run the job anew: no failure, and no retry.
SUSPENDED = "suspended"


def kind_of_failure(status: TrialJobStatus, reason: str) -> str | None:
    """The key by which such an end is retried; None where it never is.

    ``onFailure``: the command ended by itself and said that it failed. ``onPlatformFailure``: it was not the
    command's doing (a machine lost, a keeper killed, a job that somebody else deleted, code that did not arrive).
    """
    if reason == REFUSED or status not in (TrialJobStatus.FAILED, TrialJobStatus.SYS_CANCELED):
        return None
    return ON_FAILURE if reason == contract.EXITED else ON_PLATFORM_FAILURE


def retries_left(attempt: Attempt, status: TrialJobStatus, reason: str) -> tuple[int, int] | None:
    """The number of the retry that is due and how many there may be; None where none is.

    ``attempt`` has just ended so, and its row says so.
    """
    kind = kind_of_failure(status, reason)
    if kind is None:
        return None
    experiment = Experiment.objects.filter(trials__pk=attempt.trial_id).only("retry", "target", "status").get()
    most = int(experiment.retry.get(kind, 0))
    # that of a paused experiment is due, and waits until it is resumed
    if not most or experiment.target == ExperimentTarget.STOP or experiment.status == ExperimentStatus.ERROR:
        return None
    ends = Attempt.objects.filter(trial_id=attempt.trial_id).exclude(end_reason=SUSPENDED).values_list(
        "end_reason", flat=True)
    number = sum((end == contract.EXITED) == (kind == ON_FAILURE) for end in ends)
    return (number, most) if number <= most else None
