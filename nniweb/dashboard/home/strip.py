"""What runs now over all clusters, how many GPUs are busy, and what needs attention: the strip above the list."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from django.urls import reverse

from nniweb.dashboard.clusters import gpus_of, unfinished_trials
from nniweb.documents.clusters import gpu_holders
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.models import Cluster, Experiment, User
from nniweb.experiments.queries.list_states import IN_TROUBLE, ListState, is_in

#: What needs attention is named up to here.
MOST_NAMED = 3


@dataclass(frozen=True)
class Attention:
    """One thing that needs somebody, with where to look."""

    name: str
    address: str
    what: str


@dataclass(frozen=True)
class Strip:
    """Trials and GPUs of the clusters that the visitor may see, whoever's they are."""

    running: int
    waiting: int
    #: Clusters on which trials run.
    clusters: int
    gpus: int
    busy: int
    attention: Sequence[Attention]


def strip_of(user: User, visible: QuerySet[Experiment], *, needs_attention: bool = True) -> Strip:
    """``visible``: experiments that this person sees. A fixed number of queries. ``needs_attention``: False where it is
    known that none of them does, which is seen by looking at the trials of all.
    """
    clusters = list(visible_clusters(user).prefetch_related("machines").order_by("name"))
    counts = unfinished_trials(clusters)
    machines = [machine for cluster in clusters for machine in cluster.machines.all()]
    holders = gpu_holders(machines, user)
    gpus = [gpu for machine in machines for gpu in gpus_of(machine, holders, {})]
    return Strip(
        running=sum(each["RUNNING"] for each in counts.values()),
        waiting=sum(each["WAITING"] for each in counts.values()),
        clusters=sum(1 for each in counts.values() if each["RUNNING"]),
        gpus=len(gpus), busy=sum(gpu.is_held or bool(gpu.processes) for gpu in gpus),
        attention=[*_clusters(clusters), *(_experiments(visible) if needs_attention else ())])


def _clusters(clusters: list[Cluster]) -> list[Attention]:
    found = [cluster for cluster in clusters if cluster.enabled and cluster.health in IN_TROUBLE]
    return [Attention(cluster.name, reverse("cluster", args=[cluster.public_id]),
                      cluster.message or f"The cluster is {cluster.get_health_display()}.")
            for cluster in found[:MOST_NAMED]]


def _experiments(visible: QuerySet[Experiment]) -> list[Attention]:
    """Those that ended badly, the latest first; what waits for a cluster is said by the cluster."""
    ended = visible.filter(is_in(ListState.ATTENTION) & is_in(ListState.DONE), archived=False)
    rows = ended.order_by("-changed_at").values_list("name", "public_id", "status")[:MOST_NAMED]
    return [Attention(name, reverse("experiment", args=[public_id]),
                      "It ended with an error." if status == "ERROR" else "All of its trials failed.")
            for name, public_id, status in rows]
