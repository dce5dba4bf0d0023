"""The clusters' pages: how they are, who drives them, what runs and waits there and why."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Count, F, Min, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from nniweb.dashboard.page_data import the_visitor
from nniweb.documents.clusters import gpu_holders
from nniweb.experiments.access.visibility import may_change_cluster, visible_clusters, visible_experiments
from nniweb.experiments.clusters.cluster_platform import platform_of
from nniweb.experiments.clusters.machine_loads import load_of_all, recent_load
from nniweb.experiments.clusters.metadata import metadata_of, secret_settings
from nniweb.experiments.clusters.worker_presence import alive_workers, is_leased
from nniweb.experiments.models import Attempt, Cluster, Experiment, Machine, Trial, User, Worker
from nniweb.experiments.queries.list_states import IN_TROUBLE
from trainingservice.platforms import broken_platforms

#: Trials that a cluster's page lists.
SHOWN_TRIALS = 50
#: GPUs that are drawn for one cluster in the list; the numbers beside them count all.
MOST_IN_STRIP = 48
#: Machines that cannot be used, and owners of trials, that a card names.
MOST_BROKEN, MOST_OWNERS = 3, 4


@require_GET
def clusters(request: HttpRequest) -> HttpResponse:
    """All clusters that the visitor may see."""
    user = the_visitor(request)
    found = list(visible_clusters(user).select_related("owner", "group").prefetch_related("machines").order_by("name"))
    counts = unfinished_trials(found)
    machines = [machine for cluster in found for machine in cluster.machines.all()]
    holders = gpu_holders(machines, user)
    reasons = _reasons(found, user)
    owners = _owners(found, user)
    now = timezone.now()
    rows = []
    for cluster in found:
        gpus = [gpu for machine in cluster.machines.all() for gpu in gpus_of(machine, holders, {})]
        loads = [recent_load(machine, now) for machine in cluster.machines.all()]
        broken = [machine for machine in cluster.machines.all() if not machine.healthy]
        rows.append({"cluster": cluster, "people": who_may_use(cluster), **_use_of(gpus),
                     "load": load_of_all(loads), "loads_known": len(loads) - loads.count(None),
                     "owners": owners.get(cluster.pk, []), "broken": broken[:MOST_BROKEN],
                     "broken_left": max(0, len(broken) - MOST_BROKEN),
                     "counts": counts.get(cluster.pk, Counter()), "gpus": len(gpus),
                     "held": sum(gpu.is_held for gpu in gpus), "strip": GpuStrip(gpus[:MOST_IN_STRIP]),
                     "beyond": max(0, len(gpus) - MOST_IN_STRIP), "reason": reasons.get(cluster.pk, ("", {}))[0],
                     "reason_arguments": reasons.get(cluster.pk, ("", {}))[1],
                     "usable": sum(machine.healthy for machine in cluster.machines.all())})
    return render(request, "dashboard/clusters.html", {
        "rows": rows, "now": now, "broken": broken_platforms()})


@require_GET
def one_cluster(request: HttpRequest, public_id: str) -> HttpResponse:
    """A cluster: its health, machines, GPUs and experiments."""
    user = the_visitor(request)
    found = get_object_or_404(visible_clusters(user).select_related("owner", "group").prefetch_related(
        "machines", "metadata"), public_id=public_id)
    machines = sorted(found.machines.all(), key=lambda machine: machine.name)
    holders = gpu_holders(machines, user)
    trials = {trial.public_id: trial for trial in Trial.objects.filter(public_id__in={
        holder["trial"] for held in holders.values() for holder in held}).select_related("experiment")}
    unfinished = unfinished_on([found])
    latest = Attempt.objects.filter(trial=OuterRef("pk")).order_by("-number").values("machine_name")[:1]
    seen = unfinished.filter(experiment__in=visible_experiments(user)).select_related(
        "experiment__owner", "experiment__group").annotate(machine_name=Subquery(latest))
    counts = unfinished_trials([found]).get(found.pk, Counter())
    now = timezone.now()
    running = list(seen.exclude(status="WAITING").order_by("started_at", "pk")[:SHOWN_TRIALS])
    waiting = list(seen.filter(status="WAITING").order_by("pk")[:SHOWN_TRIALS])
    return render(request, "dashboard/cluster.html", {
        "cluster": found, "has_passed": all(finding["ok"] for finding in found.rehearsal or ()),
        "is_in_trouble": found.enabled and found.health in IN_TROUBLE,
        "people": who_may_use(found), "driver": driver_of(found), "counts": counts,
        "running": running, "waiting": waiting,
        "unlisted": sum(counts.values()) - len(running) - len(waiting), "now": now,
        "machines": [{"machine": machine, "gpus": gpus_of(machine, holders, trials), "load": recent_load(machine, now)}
                     for machine in machines],
        "metadata": metadata_of(found), "may_change": may_change_cluster(user, found), "is_admin": user.is_admin,
        "secrets": secret_settings(found),
        "experiments": Experiment.objects.filter(cluster=found, deleted_at=None).unfinished().count(),
        "can_rehearse": user.may_change})


def who_may_use(cluster: Cluster) -> str:
    """Whose trials the cluster takes, for a table."""
    if cluster.is_private:
        return f"{cluster.owner.username if cluster.owner else 'its owner'} alone"
    people = f"the group {cluster.group.name}" if cluster.group else "everybody"
    platform = platform_of(cluster)
    if cluster.platform != "local" and (platform is None or not platform.pinned_to_host):
        return people
    # launch_checks.why_not_here
    return f"administrators, and those of {people} who have local users" if cluster.group else \
        "administrators, and people with local users"


@dataclass(frozen=True)
class Gpu:
    """One GPU of a machine and who holds it. Memory in bytes."""

    index: int
    name: str
    utilization: int | None
    memory_used: int | None
    memory_total: int | None
    #: Trials the reader may see.
    trials: list[Trial]
    #: How many trials hold it that the reader may not see.
    hidden: int
    #: Processes on it; others' where no trial holds it.
    processes: int
    #: Whether it does not work: then it gets no trials.
    is_faulty: bool = False

    @property
    def is_held(self) -> bool:
        return bool(self.trials) or self.hidden > 0


def gpus_of(machine: Machine, holders: dict[str, list[dict[str, Any]]], trials: dict[str, Trial]) -> list[Gpu]:
    """``trials`` are those that may be named, by public id; whoever is not in it is counted."""
    found = []
    for summary in machine.gpu_summary:
        held = [holder["trial"] for holder in holders.get(machine.identity, [])
                if summary.get("index") in (holder["gpu_indices"] or ())]
        named = [trials[public_id] for public_id in held if public_id in trials]
        found.append(Gpu(int(summary.get("index", 0)), str(summary.get("name") or "GPU"), summary.get("utilization"),
                         summary.get("memory_used"), summary.get("memory_total"), named, len(held) - len(named),
                         int(summary.get("processes") or 0), bool(summary.get("fault"))))
    return found


@dataclass(frozen=True)
class GpuStrip:
    """GPUs as a row of small bars: how busy each is, and by its outline whose it is."""

    gpus: list[Gpu]
    step = 11
    height = 18

    @property
    def width(self) -> int:
        return self.step * len(self.gpus)

    @property
    def bars(self) -> list[dict[str, Any]]:
        found = []
        for place, gpu in enumerate(self.gpus):
            filled = round((self.height - 4) * min(100, gpu.utilization or 0) / 100)
            kind = "held" if gpu.is_held else "others" if gpu.processes or gpu.is_faulty else "free"
            found.append({"x": place * self.step + 1, "inner": place * self.step + 3, "y": self.height - 2 - filled,
                          "filled": filled, "kind": kind, "words": self._words(gpu, kind)})
        return found

    @staticmethod
    def _words(gpu: Gpu, kind: str) -> str:
        whose = "does not work" if gpu.is_faulty else \
            {"held": "held by a trial", "others": "used by others", "free": "free"}[kind]
        busy = "" if gpu.utilization is None else f", {gpu.utilization} % busy"
        return f"GPU {gpu.index}: {whose}{busy}"

    @property
    def words(self) -> str:
        return "; ".join(bar["words"] for bar in self.bars)


def driver_of(cluster: Cluster) -> str:
    """A sentence: which worker process drives the cluster, or why none does."""
    if not cluster.enabled:
        return "No worker runs this cluster, because it is disabled."
    if is_leased(cluster):
        worker = Worker.objects.filter(pk=cluster.lease_holder).first()
        where = f"process {worker.pid} on {worker.host}" if worker else cluster.lease_holder
        return f"The worker {where} runs this cluster."
    alive = alive_workers()
    if cluster.pinned_host and not alive.filter(host=cluster.pinned_host).exists():
        return f"No worker runs this cluster, because no worker is alive on its host {cluster.pinned_host}."
    if not alive.exists():
        return "No worker runs this cluster, because no worker is alive."
    return "No worker runs this cluster at the moment. A worker starts to run it when an experiment needs it."


def unfinished_on(found: Iterable[Cluster]) -> QuerySet[Any]:
    """Unfinished trials on these clusters (``on_cluster``): where their attempts are under way, else at their home."""
    under_way = Attempt.objects.filter(trial=OuterRef("pk"), stage__in=[
        Attempt.Stage.SUBMITTING, Attempt.Stage.SUBMITTED]).values("cluster")[:1]
    return Trial.objects.unfinished().annotate(
        on_cluster=Coalesce(Subquery(under_way), F("experiment__cluster"), output_field=BigIntegerField())).filter(
        on_cluster__in=[cluster.pk for cluster in found])


def unfinished_trials(found: Iterable[Cluster]) -> dict[int, Counter[str]]:
    """Unfinished trials by status, for each cluster. One query."""
    counts: dict[int, Counter[str]] = {}
    rows = unfinished_on(found).order_by().values_list("on_cluster", "status").annotate(Count("pk"))
    for pk, status, count in rows:
        counts.setdefault(pk, Counter())["WAITING" if status == "WAITING" else "RUNNING"] += count
    return counts


def _use_of(gpus: list[Gpu]) -> dict[str, int | None]:
    """How busy GPUs are, in percent, and their memory in bytes; None where no GPU tells."""
    told = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    return {"busy": round(sum(told) / len(told)) if told else None,
            "memory_used": sum(gpu.memory_used or 0 for gpu in gpus),
            "memory_total": sum(gpu.memory_total or 0 for gpu in gpus)}


def _owners(found: Iterable[Cluster], user: User) -> dict[int, list[tuple[str, int]]]:
    """Whose trials have not ended, for each cluster, those with most first; people whose experiments this person does
    not see are counted as others. Two queries.
    """
    visible = visible_experiments(user)
    counts: dict[int, Counter[str]] = {}
    unfinished = unfinished_on(found).order_by()
    for is_seen, trials in ((True, unfinished.filter(experiment__in=visible)),
                            (False, unfinished.exclude(experiment__in=visible))):
        for pk, name, count in trials.values_list("on_cluster", "experiment__owner__username").annotate(
                Count("pk")):
            counts.setdefault(pk, Counter())[(name or "nobody") if is_seen else "others"] += count
    return {pk: [*each.most_common(MOST_OWNERS),
                 *([("more", left)] if (left := sum(each.values()) - sum(
                     count for _, count in each.most_common(MOST_OWNERS))) else [])]
            for pk, each in counts.items()}


def _reasons(found: Iterable[Cluster], user: User) -> dict[int, tuple[str, dict[str, Any]]]:
    """Why most of the trials wait that this person may see, for each cluster. One query."""
    waiting = unfinished_on(found).filter(status="WAITING", experiment__in=visible_experiments(user)).exclude(
        message="").order_by()
    counted = waiting.values_list("on_cluster", "message").annotate(
        count=Count("pk"), arguments=Min(Cast("reason_arguments", TextField()))).order_by("count", "message")
    return {pk: (message, json.loads(arguments)) for pk, message, _, arguments in counted}
