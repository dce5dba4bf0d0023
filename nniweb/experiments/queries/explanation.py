"""Why an experiment is as it is: a reason, which is one sentence for a person."""

from collections.abc import Iterable, Mapping

from nniweb.experiments.clusters.worker_presence import absence_of, absence_of_home, alive_hosts
from nniweb.experiments.lifecycle.reason_columns import document, reason_of
from nniweb.experiments.models import Cluster, Experiment, Trial
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.results.progress import Progress
from nniweb.experiments.sql.database_health import write_trouble
from trainingservice.reasons import Reason, code_of
from trainingservice.trial_job_status import ENDS, TrialJobStatus

#: Those in which trials that wait are started.
_STARTING = (ExperimentStatus.RUNNING, ExperimentStatus.NO_MORE_TRIAL, ExperimentStatus.TUNER_NO_MORE_TRIAL)
#: Of clusters in trouble, the code with which their experiments say so.
_IN_TROUBLE = {Cluster.Health.AWAY: "cluster_away", Cluster.Health.BAD: "cluster_away",
               Cluster.Health.DEGRADED: "cluster_degraded"}
#: What is written down where trials may still wait: that no others come.
_NOTHING_FOLLOWS = ("max_trial_number", "max_duration", "tuner_exhausted")


def explanations_of(experiments: Iterable[Experiment], progress: Mapping[int, Progress]) -> dict[int, str]:
    """A sentence for each experiment, by primary key; "" where there is nothing to explain.

    That the database refuses what is written comes first, then that nobody works, what the worker wrote down, what
    keeps trials from running, and what follows from status and counts. At most two queries, and one for each cluster
    whose host is away; the experiments' clusters should have been selected with them.
    """
    experiments = list(experiments)
    unfinished = [experiment for experiment in experiments if not experiment.is_finished]
    hosts = alive_hosts() if unfinished else frozenset()
    found = {experiment.pk: reason_of(experiment) for experiment in experiments}
    refused = write_trouble() if unfinished else ""
    clusters = set() if refused else {experiment.cluster for experiment in unfinished}
    absences = {cluster: absence_of(cluster, hosts) for cluster in clusters}
    for experiment in experiments:
        found[experiment.pk] = _of_end(experiment, progress[experiment.pk], found[experiment.pk])
    stuck: dict[int, str] = {}
    for experiment in unfinished:
        mine = progress[experiment.pk]
        absent = refused or absence_of_home(experiment, absences[experiment.cluster])
        written = found[experiment.pk]
        # that nothing follows is no answer to why what there is does not run
        says_little = code_of(written) in _NOTHING_FOLLOWS
        found[experiment.pk] = absent or ("" if says_little else written) or _of_cluster(experiment)
        if not found[experiment.pk]:
            found[experiment.pk] = written or _of_status(experiment, mine)
            if experiment.status in _STARTING and mine.counts[TrialJobStatus.WAITING.value] \
                    and not mine.counts[TrialJobStatus.RUNNING.value]:
                stuck[experiment.pk] = found[experiment.pk]
    if stuck:
        waiting = Trial.objects.filter(experiment__in=stuck, status=TrialJobStatus.WAITING.value).exclude(message="")
        for key, message, code, arguments in waiting.order_by("-sequence_id").values_list(
                "experiment", "message", "reason", "reason_arguments"):
            if code != "free_slot" or not stuck[key]:
                found[key] = Reason("no_trial_runs", said=message, because=document(code, arguments))
    return found


def _of_end(experiment: Experiment, progress: Progress, written: str) -> str:
    """What was written down; where the limit of trials ended the experiment, with how its trials ended."""
    if experiment.status != ExperimentStatus.DONE or code_of(written) != "max_trial_number":
        return written
    ended = {status: count for status, count in progress.counts.items() if TrialJobStatus(status) in ENDS and count}
    most = experiment.max_trial_number or progress.total
    return Reason("max_trial_number", most=most, ended=ended) if ended else written


def _of_cluster(experiment: Experiment) -> str:
    """That the cluster cannot be used, or not all of its machines, of an experiment that waits for nothing else."""
    cluster = experiment.cluster
    if experiment.several_clusters:
        return ""  # trials without a place say what each of the clusters says
    if cluster.health not in _IN_TROUBLE or not cluster.message \
            or experiment.status not in (ExperimentStatus.INITIALIZED, *_STARTING):
        return ""
    because = document(cluster.reason, cluster.reason_arguments)
    code = _IN_TROUBLE[Cluster.Health(cluster.health)]
    return Reason(code, cluster=cluster.name, said=cluster.message, because=because)


def _of_status(experiment: Experiment, progress: Progress) -> str:
    left = progress.total - progress.ended
    match experiment.status:
        case ExperimentStatus.INITIALIZED:
            return Reason("not_taken_up")
        case ExperimentStatus.PAUSED:
            running = progress.counts[TrialJobStatus.RUNNING.value] + progress.counts[TrialJobStatus.UNKNOWN.value]
            return Reason("paused", left=left, running=running)
        case ExperimentStatus.NO_MORE_TRIAL:
            return Reason("all_submitted", left=left) if left else ""
        case ExperimentStatus.TUNER_NO_MORE_TRIAL:
            return Reason("tuner_waits", left=left) if left else ""
        case ExperimentStatus.STOPPING:
            return Reason("stopping", left=left)
    return ""
