"""Figures that are read from the rows, with each question anew: the same from every process of the installation.

A few queries however much there is. None looks at metrics or output, and trials that ended long ago are not counted
again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count, Min
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from nniweb.database.database_clock import DatabaseNow
from nniweb.experiments.clusters.lease import LEASE_SECONDS
from nniweb.experiments.clusters.worker_presence import alive_workers
from nniweb.experiments.models import Attempt, Cluster, Experiment, NotificationDelivery, Trial
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.notification import DeliveryState
from nniweb.experiments.results.settled_trials import trial_counts
from trainingservice.trial_job_status import TrialJobStatus


class DatabaseFigures(Collector):
    """Raises DatabaseError when it is read."""

    def describe(self) -> Iterable[Metric]:
        return ()  # registering it asks nothing

    def collect(self) -> Iterator[Metric]:
        now = timezone.now()
        # with the database's clock, which would be a question more
        clusters = {cluster.pk: cluster for cluster in Cluster.objects.annotate(asked_at=DatabaseNow()).only(
            "name", "lease_holder", "lease_epoch", "lease_expires_at")}
        places = {pk: (clusters[cluster].name, status) for pk, cluster, status in
                  Experiment.objects.filter(deleted_at=None).values_list("pk", "cluster", "status")
                  if cluster in clusters}
        cluster_of = {pk: name for pk, (name, _) in places.items()}
        yield from self._experiments(places)
        yield from self._trials(cluster_of)
        yield from self._waiting(cluster_of)
        yield from self._ages(cluster_of, now)
        yield from self._leases(clusters.values())
        yield from self._notifications(now)
        alive = GaugeMetricFamily("nniweb_workers", "Workers that have reported recently.")
        alive.add_metric([], alive_workers().count())
        yield alive

    @staticmethod
    def _experiments(places: dict[int, tuple[str, str]]) -> Iterator[Metric]:
        counts = Counter(places.values())
        family = GaugeMetricFamily("nniweb_experiments", "Experiments.", labels=["cluster", "status"])
        for cluster in sorted({name for name, _ in counts}):
            for status in ExperimentStatus:
                family.add_metric([cluster, status.value], counts[cluster, status.value])
        yield family

    @staticmethod
    def _trials(cluster_of: dict[int, str]) -> Iterator[Metric]:
        counts: Counter[tuple[str, str]] = Counter()
        for experiment, found in trial_counts(list(cluster_of)).items():
            for status, count in found.items():
                counts[cluster_of[experiment], status] += count
        family = GaugeMetricFamily("nniweb_trials", "Trials.", labels=["cluster", "status"])
        for cluster in sorted(set(cluster_of.values())):
            for status in TrialJobStatus:
                family.add_metric([cluster, status.value], counts[cluster, status.value])
        yield family

    @staticmethod
    def _waiting(cluster_of: dict[int, str]) -> Iterator[Metric]:
        """Only what occurs: of each cluster there would be all codes."""
        counts: Counter[tuple[str, str]] = Counter()
        waiting = Trial.objects.unfinished().filter(status=TrialJobStatus.WAITING.value)
        for experiment, reason, count in waiting.order_by().values_list("experiment", "reason").annotate(Count("pk")):
            if experiment in cluster_of:
                counts[cluster_of[experiment], reason] += count
        family = GaugeMetricFamily("nniweb_trials_waiting", "Waiting trials, by the code of their reason.",
                                   labels=["cluster", "reason"])
        for (cluster, reason), count in sorted(counts.items()):
            family.add_metric([cluster, reason], count)
        yield family

    def _ages(self, cluster_of: dict[int, str], now: datetime) -> Iterator[Metric]:
        waiting = Trial.objects.unfinished().filter(status=TrialJobStatus.WAITING.value)
        yield self._oldest("nniweb_oldest_waiting_trial_seconds", "Age of the oldest waiting trial.",
                           cluster_of, now, waiting.order_by().values_list("experiment").annotate(Min("created_at")))
        # the first condition is that of the index of unfinished attempts, which is used where it stands word for word
        under_way = Attempt.objects.filter(stage__in=[Attempt.Stage.SUBMITTING, Attempt.Stage.SUBMITTED],
                                           stage=Attempt.Stage.SUBMITTING)
        yield self._oldest("nniweb_oldest_submission_seconds",
                           "Age of the oldest attempt that its platform has not accepted yet.", cluster_of, now,
                           under_way.order_by().values_list("trial__experiment").annotate(Min("created_at")))

    @staticmethod
    def _oldest(name: str, what: str, cluster_of: dict[int, str], now: datetime,
                found: Iterable[tuple[int, datetime]]) -> Metric:
        """By cluster; 0 where there is none."""
        oldest = dict.fromkeys(cluster_of.values(), 0.0)
        for experiment, since in found:
            if experiment in cluster_of:
                cluster = cluster_of[experiment]
                oldest[cluster] = max(oldest[cluster], (now - since).total_seconds())
        family = GaugeMetricFamily(name, what, labels=["cluster"])
        for cluster in sorted(oldest):
            family.add_metric([cluster], oldest[cluster])
        return family

    @staticmethod
    def _notifications(now: datetime) -> Iterator[Metric]:
        late = NotificationDelivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=now).aggregate(
            count=Count("pk"), first=Min("due_at"))
        waiting = GaugeMetricFamily("nniweb_notifications_due", "Notifications that are due and not sent.")
        waiting.add_metric([], late["count"])
        oldest = GaugeMetricFamily("nniweb_oldest_due_notification_seconds",
                                   "When the oldest of them became due; 0 if none is due.")
        oldest.add_metric([], (now - late["first"]).total_seconds() if late["first"] else 0.0)
        yield from (waiting, oldest)

    @staticmethod
    def _leases(clusters: Iterable[Any]) -> Iterator[Metric]:
        """``clusters``: with the database's time as ``asked_at``."""
        held = GaugeMetricFamily("nniweb_lease_held", "1 while a worker holds the lease of the "
                                                      "cluster.", labels=["cluster"])
        epoch = GaugeMetricFamily("nniweb_lease_epoch",
                                  "How often another worker took the lease of the cluster.", labels=["cluster"])
        age = GaugeMetricFamily("nniweb_lease_renewed_seconds",
                                "Time since the lease was last renewed, while it is held.",
                                labels=["cluster"])
        for cluster in clusters:
            expires = cluster.lease_expires_at
            is_held = bool(cluster.lease_holder) and expires is not None and expires > cluster.asked_at
            held.add_metric([cluster.name], float(is_held))
            epoch.add_metric([cluster.name], cluster.lease_epoch)
            if cluster.lease_holder and expires is not None:
                age.add_metric([cluster.name], max(0.0, LEASE_SECONDS - (expires - cluster.asked_at).total_seconds()))
        yield from (held, epoch, age)
