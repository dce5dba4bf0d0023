"""The jobs a new service object takes over: from the rows of unfinished attempts."""

from dataclasses import replace

from nniweb.experiments.checkpoints.stored_checkpoints import trials_with_checkpoints
from nniweb.experiments.launch.job_forms import first_parameters, job_detail
from nniweb.experiments.models import Attempt, Cluster, Place
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
                           place__isnull=True,
                           ).update(stage=Attempt.Stage.SUBMITTING)


def resumed_jobs(cluster_pk: int) -> list[ResumedJob]:
    """All unfinished attempts of a cluster. Their keepers have their tokens; the forms here hold none.

    Of attempts that run in a warm place the platform knows the job of the place, which may be that of an ended attempt.
    """
    platform = load_platform(Cluster.objects.get(pk=cluster_pk).platform)
    under_way = list(Attempt.objects.under_way().filter(cluster=cluster_pk).select_related(
        "place", "trial__experiment__code"))
    attempts = [attempt for attempt in under_way if attempt.place is None
                or attempt.place.job_name == attempt.job_name]
    known = {attempt.job_name for attempt in attempts}
    staying = Place.objects.filter(cluster=cluster_pk, closed_at__isnull=True).values("job_name")
    hosts = [attempt for attempt in Attempt.objects.filter(job_name__in=staying).select_related(
        "trial__experiment__code") if attempt.job_name not in known]
    attempts += hosts
    parameters = first_parameters([attempt.trial_id for attempt in attempts])
    saved = trials_with_checkpoints({attempt.trial.experiment_id for attempt in attempts})
    jobs = []
    for attempt in attempts:
        detail = job_detail(attempt, parameters.get(attempt.trial_id), platform, saved)
        if attempt.stage == Attempt.Stage.ENDED:
            detail = replace(detail, status=TrialJobStatus.RUNNING, is_early_stopped=None, message="")
        jobs.append(ResumedJob(detail, submitted=attempt.stage != Attempt.Stage.SUBMITTING,
                               accepted=attempt.accepted))
    return jobs
