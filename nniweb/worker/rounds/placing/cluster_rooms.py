"""What a round knows of the clusters of an experiment that runs on several: which can be used, and what room they have.

The number of queries does not depend on the number of trials: the attempts under way are counted for all clusters at
once, and machines and limits are asked for only where a trial needs GPUs or a cluster has a limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, F, Max, Q, When

from nniweb.experiments.clusters.placement import LATELY, MANY_FAILURES, ClusterRoom
from nniweb.experiments.lifecycle.cluster_use import why_unusable
from nniweb.experiments.memory.gpu_demand import GPU_MEMORY
from nniweb.experiments.models import Attempt, Experiment, ExperimentCluster, Machine
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from nniweb.worker.cluster_host.fair_share import room_on_cluster
from nniweb.worker.rounds.placing.no_room import NO_ROOM
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus


def rooms_of(experiment: Experiment, now: datetime) -> list[ClusterRoom]:
    """Of all clusters of its list, in their order."""
    rows = sorted(rows_by_cluster(experiment).values(), key=lambda row: (row.position, row.pk))
    under_way = _under_way(experiment)
    unusable = why_unusable(experiment)
    # where trials share GPUs by memory bookings do not tell what is free
    counts_gpus = any(row.gpus_of_a_trial for row in rows) and not experiment.config.get(GPU_MEMORY)
    gpus = _free_gpus(rows) if counts_gpus else {}
    found = []
    for row in rows:
        if not row.is_listed:
            continue
        mine = under_way.get(row.cluster_id, _NOTHING)
        room = ClusterRoom(
            row.cluster_id, row.cluster.name, row.weight, row.cost, tuple(row.after), mine["count"],
            why_not=unusable.get(row.cluster_id, ""), has_code=row.used_at is not None,
            is_failing=sum(now.timestamp() - at < LATELY for at in row.failures) >= MANY_FAILURES)
        if not room.why_not:
            _measure(room, row, experiment, mine, gpus)
        found.append(room)
    return found


_NOTHING: dict[str, Any] = {"count": 0, "unbooked": 0, "waits": 0, "said": ""}


def _under_way(experiment: Experiment) -> dict[int, dict[str, Any]]:
    waits = Q(stage=Attempt.Stage.SUBMITTED, trial__status=TrialJobStatus.WAITING.value, trial__reason__in=NO_ROOM)
    rows = Attempt.objects.under_way().filter(trial__experiment=experiment).values("cluster").annotate(
        count=Count("pk"), unbooked=Count("pk", filter=Q(gpu_indices=None)), waits=Count("pk", filter=waits),
        said=Max(Case(When(waits, then=F("trial__message"))))).order_by()
    return {row["cluster"]: dict(row) for row in rows}


def _measure(room: ClusterRoom, row: ExperimentCluster, experiment: Experiment, mine: Mapping[str, Any],
             gpus: Mapping[int, tuple[int, int, int] | None]) -> None:
    """Write the least of what its limits leave, and which limit that is."""
    limits: list[tuple[int, str]] = []
    if row.up_to is not None:
        limits.append((row.up_to - mine["count"], Reason("at_most_there", most=row.up_to)))
    if row.gpus_of_a_trial and (known := gpus.get(row.cluster_id)) is not None:
        slots, most, free = known
        limits.append((slots - mine["unbooked"],
                       Reason("gpus_there", asked=row.gpus_of_a_trial, most=most, free=free)))
    if mine["waits"]:
        limits.append((0, Reason("waits_there", count=mine["waits"], said=mine["said"] or "")))
    # the last: that it alone is in the way is what others of that cluster keep room for
    if row.cluster.max_trials is not None:
        limits.append((room_on_cluster(row.cluster, experiment), Reason("limit_there", most=row.cluster.max_trials)))
    if limits:
        room.room, room.why_full = min(limits, key=lambda limit: limit[0])
        room.room = max(0, room.room)


def _free_gpus(rows: list[ExperimentCluster]) -> dict[int, tuple[int, int, int] | None]:
    """Cluster -> how many trials its machines have GPUs for, the GPUs of its largest machine and the most that one has
    free; None where that is not known, because GPUs are shared or no machine shows any.
    """
    asked = {row.cluster_id: row.gpus_of_a_trial for row in rows if row.gpus_of_a_trial and not _shares_gpus(row)}
    machines: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for pk, identity, summary in Machine.objects.filter(cluster__in=asked, healthy=True).values_list(
            "cluster", "identity", "gpu_summary"):
        machines[pk].append((identity, len(summary), sum(not gpu.get("fault") for gpu in summary)))
    identities = {identity for some in machines.values() for identity, _, _ in some if identity}
    held: dict[str, int] = defaultdict(int)
    for identity, indices in Attempt.objects.under_way().filter(
            machine_identity__in=identities, gpu_indices__isnull=False).values_list("machine_identity", "gpu_indices"):
        held[identity] += len(indices or ())
    found: dict[int, tuple[int, int, int] | None] = {}
    for pk, some in machines.items():
        most = max(count for _, count, _ in some)
        free = [max(0, working - held[identity]) for identity, _, working in some]
        found[pk] = (sum(each // asked[pk] for each in free), most, max(free)) if most else None
    return found


def _shares_gpus(row: ExperimentCluster) -> bool:
    """Whether several trials may run on one GPU: then bookings do not tell what is free."""
    settings = row.cluster.settings
    each = [settings, *(one for one in settings.get("machineList") or () if isinstance(one, dict))]
    return any((one.get("maxTrialNumberPerGpu") or 1) > 1 for one in each)
