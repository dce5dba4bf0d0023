"""In which part of the list of experiments one belongs: those that run, that need attention, that are over."""

from enum import StrEnum

from django.db.models import Exists, OuterRef, Q

from nniweb.experiments.models import Cluster, Trial
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS, ExperimentStatus
from nniweb.experiments.models.trial import RESULTS
from trainingservice.trial_job_status import TrialJobStatus

#: Of clusters on which nothing, or not everything, can run.
IN_TROUBLE = (Cluster.Health.DEGRADED, Cluster.Health.AWAY, Cluster.Health.BAD)


class ListState(StrEnum):
    """An experiment may need attention while it runs and when it is over."""

    RUNNING = "running"
    #: It ended with an error, all of its trials failed, or its cluster cannot be used as it should.
    ATTENTION = "attention"
    DONE = "done"


def is_in(state: ListState) -> Q:
    """For a filter of experiments. Of trials it reads only the index of experiment and status."""
    match state:
        case ListState.RUNNING:
            return Q(status__in=UNFINISHED_EXPERIMENTS)
        case ListState.DONE:
            return ~Q(status__in=UNFINISHED_EXPERIMENTS)
    trials = Trial.objects.filter(experiment=OuterRef("pk"))
    all_failed = Exists(trials.filter(status=TrialJobStatus.FAILED.value)) & ~Exists(trials.filter(status__in=RESULTS))
    cluster = Q(cluster__enabled=False) | Q(cluster__health__in=IN_TROUBLE)
    return Q(status=ExperimentStatus.ERROR) | (Q(status__in=UNFINISHED_EXPERIMENTS) & cluster) | (
        Q(status__in=(ExperimentStatus.DONE, ExperimentStatus.STOPPED)) & Q(all_failed))
