"""How a budget stands: what was used of it, what runs now, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from nniweb.experiments.budgets.attempt_costs import GROUP, OWNER, UNDER_WAY, AttemptCosts, costs_of
from nniweb.experiments.budgets.concerned import Held
from nniweb.experiments.budgets.ledger_sums import spent
from nniweb.experiments.budgets.spending import Spending, Unit, limits_of, money_for


@dataclass(frozen=True)
class Standing:
    """Of one budget, now."""

    held: Held
    limits: Mapping[Unit, Decimal]
    #: Of attempts that have ended.
    used: Spending
    #: Of attempts under way so far; their trials count from their beginning on.
    running: Spending
    #: When the next month begins; None of a budget in total.
    begins_anew: datetime | None

    def left(self, unit: Unit) -> Decimal:
        """Of a unit that has a limit; less than nothing where what ran last went beyond it."""
        return self.limits[unit] - (self.used + self.running).amount(unit)

    @property
    def used_up(self) -> list[Unit]:
        """Units of which nothing is left."""
        return [unit for unit in self.limits if self.left(unit) <= 0]


def standing(held: Held, now: datetime, under_way: Sequence[AttemptCosts] | None = None, *, keeps: bool = False
             ) -> Standing:
    """How it stands. Three questions, however much the ledger has; two where ``under_way`` (of ``attempts_under_way``)
    is given. ``keeps``: see ``spent``.

    Attempts are read before the ledger: one that ends meanwhile counts twice for a moment, and never not at all.
    """
    if under_way is None:
        under_way = attempts_under_way([held])
    running = sum((running_spending(costs, now) for costs in under_way if held.counts(costs, now)), Spending())
    used = spent(held.budget, held.person, held.month(now), keeps=keeps)
    return Standing(held, limits_of(held.budget), used, running, held.begins_anew(now))


def attempts_under_way(helds: Iterable[Held]) -> list[AttemptCosts]:
    """The attempts under way that may count towards one of these budgets. One question."""
    columns = {"experiment": "e.id", "token": "k.id", "group": GROUP, "owner": OWNER}
    subjects = sorted({held.subject for held in helds})
    condition = " OR ".join(f"{columns[kind]} = %s" for kind, _ in subjects)
    return costs_of(f"{UNDER_WAY} AND ({condition})", [key for _, key in subjects]) if subjects else []


def running_spending(costs: AttemptCosts, now: datetime) -> Spending:
    """What an attempt under way has taken so far."""
    milliseconds = costs.running(now)
    return Spending(
        int(costs.number == 1), milliseconds, milliseconds * costs.gpus, milliseconds * costs.milli_cpus,
        money_for(milliseconds, costs.gpus, costs.milli_cpus, costs.gpu_hour_price, costs.cpu_hour_price))
