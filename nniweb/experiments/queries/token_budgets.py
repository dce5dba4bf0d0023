"""How the budgets of tokens stand, in lines: one for each limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from nniweb.experiments.budgets.concerned import Held
from nniweb.experiments.budgets.spending import Unit
from nniweb.experiments.budgets.standing import attempts_under_way, standing
from nniweb.experiments.models import Budget

UNITS_IN_WORDS: Mapping[Unit, str] = {"gpu_hours": "GPU-hours", "cpu_hours": "CPU-hours", "trials": "trials",
                                      "wall_hours": "hours of trials", "money": "money"}


@dataclass(frozen=True)
class BudgetLine:
    """One limit of a token's budget. Amounts are hours, trials or money, as the unit says."""

    period: Budget.Period
    unit: Unit
    limit: Decimal
    #: By attempts that have ended and those under way so far.
    used: Decimal

    @property
    def left(self) -> Decimal:
        return max(Decimal(0), self.limit - self.used)

    @property
    def unit_in_words(self) -> str:
        return UNITS_IN_WORDS[self.unit]

    @property
    def period_in_words(self) -> str:
        return str(self.period.label)


def budgets_of_tokens(tokens: Collection[int], now: datetime) -> dict[int, list[BudgetLine]]:
    """By primary key, of those that have a budget. One query for all, and three for each budget."""
    budgets = list(Budget.objects.filter(token__in=tokens).order_by("pk")) if tokens else []
    helds = [Held(budget) for budget in budgets]
    under_way = attempts_under_way(helds)
    found: dict[int, list[BudgetLine]] = defaultdict(list)
    for held in helds:
        one = standing(held, now, under_way)
        taken = one.used + one.running
        found[held.budget.token_id or 0] += [BudgetLine(
            Budget.Period(held.budget.period), unit, limit, taken.amount(unit)) for unit, limit in one.limits.items()]
    return dict(found)
