"""Whether anybody works: asked by pages, REST and commands, to say so where nobody does."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import QuerySet

from nniweb.database.database_clock import DatabaseNow, database_now
from nniweb.experiments.models import Cluster, Experiment, Worker
from nniweb.experiments.sql.database_health import write_trouble
from nniweb.storage.own_files import COMMAND, START
from trainingservice.reasons import Reason, as_document, code_of

#: A worker heard within this time is alive; it reports every 5 s.
ALIVE_FOR = timedelta(seconds=15)
#: What to do where nobody does.
HOW_TO_START = f"Start the server ({START}), or start only a worker ({COMMAND} worker)."


def worker_is_alive() -> bool:
    """False where none has been heard of, unless it is known that no worker could make itself heard."""
    return bool(alive_hosts()) or bool(write_trouble())


def alive_workers() -> QuerySet[Worker]:
    """Workers heard lately. Written and judged by the database's clock, as leases are: hosts may disagree."""
    return Worker.objects.filter(heard_at__gte=DatabaseNow() - ALIVE_FOR)


def alive_hosts() -> frozenset[str]:
    """Names of the hosts on which a worker is alive. One query."""
    return frozenset(alive_workers().values_list("host", flat=True))


def is_leased(cluster: Cluster, now: datetime | None = None) -> bool:
    """Whether a worker holds the cluster and its lease has not run out. ``now``: by the database's clock; without it,
    at most one query.
    """
    return bool(cluster.lease_holder) and cluster.lease_expires_at is not None \
        and cluster.lease_expires_at > (now or database_now())


def absence_of(cluster: Cluster, hosts: Collection[str]) -> str:
    """Why nobody drives this cluster, as a sentence; "" where somebody does or is about to.

    ``hosts`` are those of ``alive_hosts``. One query at most, and that only where the cluster's host is none of them.
    """
    if not cluster.enabled:
        return Reason("cluster_disabled", cluster=cluster.name)
    if not hosts:
        return Reason("no_worker", todo=HOW_TO_START)
    pinned = cluster.pinned_host
    if pinned and pinned not in hosts and not is_leased(cluster):
        return Reason("host_away", cluster=cluster.name, host=pinned)
    return ""


def absence_of_home(experiment: Experiment, absence: str) -> str:
    """What ``absence_of`` said of the experiment's cluster; of the home of several with what happens by itself."""
    if experiment.several_clusters and code_of(absence) in ("cluster_disabled", "host_away"):
        return Reason("home_away", said=absence, because=as_document(absence))
    return absence
