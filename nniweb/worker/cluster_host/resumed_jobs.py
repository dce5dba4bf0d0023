"""The jobs a new service object takes over: from the rows of unfinished attempts."""

from nniweb.experiments.launch.job_forms import first_parameters, job_detail
from nniweb.experiments.models import Attempt, Cluster
from trainingservice.platforms import load_platform
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus


def submit_unseen_again(cluster_pk: int) -> None:
    """What nobody saw start may have waited in the memory of the object before, for a GPU or a machine.

    It may be nowhere now: it is submitted again, which is harmless where it did arrive and brings a token where it
    did not. Called inside the lease's transaction.
    """
    Attempt.objects.under_way().filter(cluster=cluster_pk, trial__status=TrialJobStatus.WAITING.value,
                           stage=Attempt.Stage.SUBMITTED, journal_id="", started_at=None, observed_end__isnull=True,
                           ).update(stage=Attempt.Stage.SUBMITTING)


def resumed_jobs(cluster_pk: int) -> list[ResumedJob]:
    """All unfinished attempts of a cluster. Their keepers have their tokens; the forms here hold none."""
    platform = load_platform(Cluster.objects.get(pk=cluster_pk).platform)
    attempts = list(Attempt.objects.under_way().filter(cluster=cluster_pk).select_related(
        "trial__experiment__code"))
    parameters = first_parameters([attempt.trial_id for attempt in attempts])
    jobs = []
    for attempt in attempts:
        detail = job_detail(attempt, parameters.get(attempt.trial_id), platform)
        jobs.append(ResumedJob(detail, submitted=attempt.stage == Attempt.Stage.SUBMITTED,
                               accepted=attempt.accepted))
    return jobs
