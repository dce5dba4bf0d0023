"""The home of an experiment with several clusters moves when nobody drives its home cluster any more.

The home's worker asks the tuner and places trials, so a home without a worker would stop the search, though the other
clusters could go on. The worker of one of those makes its cluster the home. It begins a new epoch of the old home's
lease in the same transaction: a worker that wakes up there has lost it, and writes nothing more.
"""

from __future__ import annotations

from collections import defaultdict

from django.db.models import F, Q, QuerySet

from nniweb.database.database_clock import DatabaseNow
from nniweb.experiments.models import Cluster, Experiment, ExperimentCluster, ExperimentEvent
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.worker.rounds.cluster_work import ClusterWork

logger = ExperimentLogger(__name__)

#: A home is left alone for so long, in seconds: two leases, so that its next worker comes first where there is one.
HOME_AWAY_SECONDS = 30.0
#: Seconds between two looks.
LOOK_SECONDS = 5.0


def take_over(work: ClusterWork) -> None:
    """Make this cluster the home of experiments whose home has no worker."""
    now = work.monotonic()
    if now < work.next_look_for_homes:
        return
    work.next_look_for_homes = now + LOOK_SECONDS
    elsewhere: dict[int, list[ExperimentCluster]] = defaultdict(list)
    for row in ExperimentCluster.objects.filter(
            cluster=work.cluster_pk, is_listed=True, experiment__deleted_at=None,
            experiment__status__in=UNFINISHED_EXPERIMENTS).exclude(
            experiment__cluster=work.cluster_pk).select_related("experiment"):
        elsewhere[row.experiment.cluster_id].append(row)
    away = set(_without_worker().filter(pk__in=elsewhere).values_list("pk", flat=True)) if elsewhere else set()
    work.homeless_since = {pk: work.homeless_since.get(pk, now) for pk in away}
    for home, since in work.homeless_since.items():
        if now - since >= HOME_AWAY_SECONDS:
            _take(work, home, elsewhere[home])


def _without_worker() -> QuerySet[Cluster]:
    return Cluster.objects.filter(Q(lease_holder="") | Q(lease_expires_at=None) | Q(lease_expires_at__lt=DatabaseNow()))


def _take(work: ClusterWork, home: int, rows: list[ExperimentCluster]) -> None:
    with work.lease.transaction():
        if not _without_worker().filter(pk=home).update(
                lease_epoch=F("lease_epoch") + 1, lease_holder="", lease_expires_at=None):
            return
        name = Cluster.objects.values_list("name", flat=True).get(pk=home)
        for row in rows:
            if not Experiment.objects.filter(pk=row.experiment_id, cluster=home).update(
                    cluster=work.cluster_pk, trial_options=row.trial_options, trial_gpu_number=row.trial_gpu_number):
                continue
            next_revision(row.experiment_id)
            ExperimentEvent.objects.create(experiment=row.experiment, at=work.now(), kind="home moved", message=(
                f"No worker drives the cluster {name}, so another one searches on."))
            with log_ids(experiment=row.experiment.public_id):
                logger.warning("no worker drives the cluster %s: this cluster is the home of the experiment now", name)
