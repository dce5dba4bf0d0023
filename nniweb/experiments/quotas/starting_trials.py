"""How many trials of an experiment may start now, and whose go first.

Nothing that runs is ever stopped for a quota: it decides what starts. Where a limit leaves room for fewer trials than
the experiments of a cluster would start, the one with the fewest under way goes first, again and again, so that in the
long run all have as many.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count

from nniweb.experiments.models import Attempt
from nniweb.experiments.quotas.quota_limits import Holder, Limits


@dataclass(frozen=True)
class Room:
    """So many trials may start now; if fewer than wanted, ``reason`` says what the others wait for."""

    count: int
    reason: str = ""


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
