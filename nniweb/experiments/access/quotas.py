"""What limits an experiment: quotas of its owner and its group, the limit of its cluster; and who goes first.

Nothing that runs is ever stopped for a quota: it decides what starts. Where a limit leaves room for fewer trials than
the experiments of a cluster would start, the one with the fewest under way goes first, again and again, so that in the
long run all have as many.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Count, Q

from nniweb.experiments.models import Attempt, Cluster, Experiment, Quota, User
from trainingservice.reasons import Reason

#: How limits are shared, for people.
Unit = Literal["trials", "gpus"]


@dataclass(frozen=True)
class Holder:
    """An experiment, as far as limits see it. ``under_way``: its trials that were given to the platform."""

    pk: int
    owner: int | None
    group: int | None
    cluster: int
    gpus_of_a_trial: int
    under_way: int = 0

    @classmethod
    def of(cls, experiment: Experiment, under_way: int = 0) -> Holder:
        return cls(experiment.pk, experiment.owner_id, experiment.group_id, experiment.cluster_id,
                   experiment.gpus_of_a_trial, under_way)


@dataclass(frozen=True)
class Limit:
    """At most ``most`` trials (or GPUs of trials) of one owner, group or cluster."""

    of: tuple[str, int]  #: ("owner" or "group" or "cluster", primary key)
    unit: Unit
    most: int
    #: Whose it is, for a sentence.
    words: str

    def concerns(self, holder: Holder) -> bool:
        kind, pk = self.of
        return bool(getattr(holder, kind) == pk)

    def cost(self, holder: Holder) -> int:
        """What one trial of this experiment takes of it."""
        return 1 if self.unit == "trials" else holder.gpus_of_a_trial

    def reason(self, holder: Holder) -> Reason:
        """Why a trial waits; the same as long as it waits for the same."""
        asked = holder.gpus_of_a_trial
        if self.unit != "trials" and asked > self.most:
            return Reason("quota_too_small", whose=self.words, most=self.most, asked=asked)
        return Reason("quota", whose=self.words, unit=self.unit, most=self.most,
                      asked=0 if self.unit == "trials" else asked)


@dataclass(frozen=True)
class Room:
    """So many trials may start now; if fewer than wanted, ``reason`` says what the others wait for."""

    count: int
    reason: str = ""


class Limits:
    """All quotas of the installation, and the limit of one cluster."""

    def __init__(self, quotas: Iterable[Quota], cluster: Cluster) -> None:
        self._of_owner: dict[int, Quota] = {}
        self._of_group: dict[int, Quota] = {}
        self._of_the_rest: Quota | None = None
        for quota in quotas:
            if quota.user_id is not None:
                self._of_owner[quota.user_id] = quota
            elif quota.group_id is not None:
                self._of_group[quota.group_id] = quota
            else:
                self._of_the_rest = quota
        self._of_cluster = [] if cluster.max_trials is None else [
            Limit(("cluster", cluster.pk), "trials", cluster.max_trials, f"the limit of the cluster {cluster.name}")]

    @classmethod
    def now(cls, cluster: Cluster) -> Limits:
        """As the database has them. One query, two where there are quotas."""
        with connection.cursor() as cursor:  # by hand: each trial asks, and mostly there are none
            cursor.execute(f"SELECT 1 FROM {Quota._meta.db_table} LIMIT 1")
            any_quotas = cursor.fetchone() is not None
        return cls(Quota.objects.select_related("user", "group") if any_quotas else (), cluster)

    def __bool__(self) -> bool:
        return bool(self._of_owner or self._of_group or self._of_the_rest or self._of_cluster)

    def concerning(self, holder: Holder) -> list[Limit]:
        """The limits of this experiment, which is on the cluster."""
        found = list(self._of_cluster)
        if holder.owner in self._of_owner:
            quota = self._of_owner[holder.owner]
            found += _limits(quota, ("owner", holder.owner), f"the quota of {quota.of_whom}")
        elif self._of_the_rest is not None and holder.owner is not None:
            found += _limits(self._of_the_rest, ("owner", holder.owner), "the quota that each person has")
        if holder.group in self._of_group:
            quota = self._of_group[holder.group]
            found += _limits(quota, ("group", holder.group), f"the quota of {quota.of_whom}")
        return found


def _limits(quota: Quota, of: tuple[str, int], words: str) -> list[Limit]:
    units: list[tuple[Unit, int | None]] = [("trials", quota.max_trials), ("gpus", quota.max_gpus)]
    return [Limit(of, unit, most, words) for unit, most in units if most is not None]


def holders_under_way() -> dict[int, Holder]:
    """All experiments of which something is under way, by primary key. One query, as long as what is under way now."""
    counted = Attempt.objects.under_way().values_list(
        "trial__experiment", "trial__experiment__owner", "trial__experiment__group", "trial__experiment__cluster",
        "trial__experiment__gpus_of_a_trial").annotate(number=Count("pk"))
    return {row[0]: Holder(*row) for row in counted.order_by()}


def room_for(holder: Holder, wanted: int, limits: Limits, under_way: Mapping[int, Holder],
             pending: Mapping[int, tuple[Holder, int]] | None = None) -> Room:
    """How many of ``wanted`` trials may start now. ``under_way``: what runs anywhere, by experiment.

    ``pending``: other experiments whose trials wait, with how many they would start. Who has fewer under way goes
    first.
    """
    concerned = {one.pk: limits.concerning(one) for one in (holder, *(other for other, _ in (pending or {}).values()))}
    left = {limit: limit.most - sum(limit.cost(other) * other.under_way for other in under_way.values()
                                    if limit.concerns(other)) for its in concerned.values() for limit in its}
    queue = [(one.under_way, pk, one, most) for pk, (one, most) in (pending or {}).items() if pk != holder.pk]
    queue.append((holder.under_way, holder.pk, holder, wanted))
    heapq.heapify(queue)
    count = 0
    while queue and count < wanted:
        number, pk, one, most = heapq.heappop(queue)
        full = next((limit for limit in concerned[pk] if left[limit] < limit.cost(one)), None)
        if most == 0 or full is not None:
            if pk == holder.pk and full is not None:
                return Room(count, full.reason(holder))
            continue
        for limit in concerned[pk]:
            left[limit] -= limit.cost(one)
        count += pk == holder.pk
        heapq.heappush(queue, (number + 1, pk, one, most - 1))
    return Room(count)


# --- experiments ---------------------------------------------------------------------------


def why_no_experiment_more(owner: User | None, group: Group | None) -> str:
    """Why no experiment more of this owner and group may go on, a sentence; "" where one may.

    Ask in the transaction that makes the experiment go on: whoever does the same meanwhile waits for its end.
    """
    for quota, whose, theirs in _quotas_of(owner, group):
        if quota.max_experiments is None:
            continue
        going_on = Experiment.objects.unfinished().filter(theirs, deleted_at=None).count()
        if going_on >= quota.max_experiments:
            return (f"{whose} allows {quota.max_experiments} experiment{'' if quota.max_experiments == 1 else 's'} at "
                    f"a time, and {going_on} go{'es' if going_on == 1 else ''} on. Stop one or wait for its end, or "
                    "ask an administrator for more.")
    return ""


def why_not_so_many_gpus(owner: User | None, group: Group | None, gpus_of_a_trial: int) -> str:
    """Why a trial of this owner and group can never have so many GPUs, a sentence; "" where it can."""
    for quota, whose, _ in _quotas_of(owner, group):
        if quota.max_gpus is not None and gpus_of_a_trial > quota.max_gpus:
            return (f"{whose} allows {quota.max_gpus} GPU{'' if quota.max_gpus == 1 else 's'} at a time, and one trial "
                    f"asks for {gpus_of_a_trial}. Ask for fewer, or ask an administrator for more.")
    return ""


def _quotas_of(owner: User | None, group: Group | None) -> list[tuple[Quota, str, Q]]:
    """What holds for an experiment of theirs: the quota, whose it is, which experiments count."""
    quotas = {(quota.user_id, quota.group_id): quota for quota in Quota.objects.select_for_update()}
    of_owner = quotas.get((owner.pk, None)) or quotas.get((None, None)) if owner is not None else None
    of_group = quotas.get((None, group.pk)) if group is not None else None
    found = []
    if of_owner is not None and owner is not None:
        found.append((of_owner, f"The quota of {owner.username}", Q(owner=owner)))
    if of_group is not None and group is not None:
        found.append((of_group, f"The quota of the group {group.name}", Q(group=group)))
    return found
