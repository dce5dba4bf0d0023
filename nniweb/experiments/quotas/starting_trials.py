"""How many trials of an experiment may start now, and whose go first.

Nothing that runs is ever stopped for a quota: it decides what starts. Where a limit leaves room for fewer trials than
the experiments of a cluster would start, those of the highest priority go first. Of these the one with the fewest under
way goes first, again and again, so that in the long run all have as many.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace

from django.db.models import Count, F, Sum

from nniweb.experiments.models import Attempt
from nniweb.experiments.quotas.leash_limits import COUNTED_TOKEN
from nniweb.experiments.quotas.quota_limits import COLUMNS, Holder, Limit, Limits


@dataclass(frozen=True)
class Room:
    """So many trials may start now; if fewer than wanted, ``reason`` says what the others wait for."""

    count: int
    reason: str = ""


def holders_under_way() -> dict[int, Holder]:
    """All experiments of which something is under way, by primary key. One query, as long as what is under way now."""
    counted = Attempt.objects.under_way().annotate(counted=COUNTED_TOKEN).values_list(
        *(f"trial__experiment__{column}" for column in COLUMNS), "cluster", "counted").annotate(
            number=Count("pk"), more_gpus=Sum(F("charged_gpus") - F("trial__experiment__gpus_of_a_trial")))
    found: dict[int, Holder] = {}
    for *whose, cluster, token, number, more_gpus in counted.order_by():
        holder = found.get(whose[0]) or Holder.of_columns(whose)
        on = {**holder.on, cluster: holder.on.get(cluster, 0) + number} if holder.several_clusters else {}
        of_tokens = holder.of_tokens if token is None else {
            **holder.of_tokens, token: holder.of_tokens.get(token, 0) + number}
        found[holder.pk] = replace(holder, under_way=holder.under_way + number, on=on, of_tokens=of_tokens,
                                   more_gpus=holder.more_gpus + (more_gpus or 0))
    return found


def room_for(holder: Holder, wanted: int, limits: Limits, under_way: Mapping[int, Holder],
             pending: Mapping[int, tuple[Holder, int]] | None = None) -> Room:
    """How many of ``wanted`` trials may start now. ``under_way``: what runs anywhere, by experiment.

    ``pending``: other experiments whose trials wait, with how many they would start. Who has a higher priority goes
    first, then who has fewer under way.
    """
    concerned = {one.pk: limits.concerning(one) for one in (holder, *(other for other, _ in (pending or {}).values()))}
    left = {limit: limit.most - sum(limit.used_by(other) for other in under_way.values())
            for its in concerned.values() for limit in its}
    queue = [(-one.priority, one.under_way, pk, one, most) for pk, (one, most) in (pending or {}).items()
             if pk != holder.pk]
    queue.append((-holder.priority, holder.under_way, holder.pk, holder, wanted))
    heapq.heapify(queue)
    count = 0
    while queue and count < wanted:
        after, number, pk, one, most = heapq.heappop(queue)
        full = next((limit for limit in concerned[pk] if left[limit] < limit.cost(one)), None)
        if most == 0 or full is not None:
            if pk == holder.pk and full is not None:
                return Room(count, full.reason(holder))
            continue
        for limit in concerned[pk]:
            left[limit] -= limit.cost(one)
        count += pk == holder.pk
        heapq.heappush(queue, (after, number + 1, pk, one, most - 1))
    return Room(count)


def full_limit(holder: Holder, limits: Limits, under_way: Mapping[int, Holder]) -> Limit | None:
    """The limit that leaves no room for one more trial of this experiment; None where there is room.

    ``under_way``: what runs anywhere, by experiment.
    """
    return next((limit for limit in limits.concerning(holder) if limit.most - sum(
        limit.used_by(other) for other in under_way.values()) < limit.cost(holder)), None)
