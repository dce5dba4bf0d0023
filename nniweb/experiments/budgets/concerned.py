"""Which budgets an experiment's trials count towards."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from nniweb.experiments.budgets.attempt_costs import AttemptCosts
from nniweb.experiments.models import Budget, Experiment
from nniweb.experiments.models.limits import month_of, next_month
from nniweb.experiments.sql.selected_rows import is_any

#: Whose a budget is, for people (``Reason`` "budget"): with a name, but of that of each person.
PERSON, EACH_PERSON, GROUP, TOKEN, EXPERIMENT = "person", "each_person", "group", "token", "experiment"


def subject_of(budget: Budget, person: int) -> tuple[str, int]:
    """As ``Held.subject``."""
    for kind, key in (("experiment", budget.experiment_id), ("token", budget.token_id), ("group", budget.group_id)):
        if key is not None:
            return kind, key
    return "owner", budget.user_id if budget.user_id is not None else person


@dataclass(frozen=True)
class Held:
    """A budget, and of one that each person has the person (primary key), else 0."""

    budget: Budget
    person: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.budget.pk, self.person

    def month(self, now: datetime) -> str:
        """That counts now; "" of a budget in total."""
        return month_of(now) if self.budget.period == Budget.Period.MONTH else ""

    def begins_anew(self, now: datetime) -> datetime | None:
        """When the next month begins; None of a budget in total."""
        return next_month(now) if self.budget.period == Budget.Period.MONTH else None

    @property
    def subject(self) -> tuple[str, int]:
        """Whose attempts count: "experiment", "token", "group" or "owner", and the primary key."""
        return subject_of(self.budget, self.person)

    def counts(self, costs: AttemptCosts, now: datetime) -> bool:
        """Whether an attempt counts towards it now."""
        if self.budget.period == Budget.Period.MONTH and month_of(costs.created_at) != month_of(now):
            return False
        kind, key = self.subject
        return bool(getattr(costs, f"{kind}_pk") == key)

    @property
    def whose(self) -> dict[str, str]:
        """As it stands in the arguments of a reason: kind and name."""
        budget = self.budget
        if budget.user is not None:
            return {"kind": PERSON, "name": budget.user.username}
        if budget.group is not None:
            return {"kind": GROUP, "name": budget.group.name}
        if budget.token is not None:
            return {"kind": TOKEN, "name": str(budget.token)}
        if budget.experiment is not None:
            return {"kind": EXPERIMENT, "name": budget.experiment.name}
        return {"kind": EACH_PERSON, "name": ""}


def is_any_budget() -> bool:
    """Whether there is a budget at all. By hand: each trial asks, and mostly there are none."""
    return is_any(Budget, "TRUE")


def budgets_of(experiment: Experiment, tokens: Iterable[int | None] = (), *, locks: bool = False) -> list[Held]:
    """The budgets towards which trials of an experiment count. One or two questions.

    ``tokens``: of trials that were asked for by others than the experiment's own (primary keys). ``locks``: whoever
    else starts trials by one of them waits for the end of this transaction.
    """
    if not is_any_budget():
        return []
    return budgets_for(experiment.owner_id, experiment.group_id, {experiment.token_id, *tokens}, experiment.pk,
                       locks=locks)


def budgets_for(owner: int | None, group: int | None, tokens: Collection[int | None], experiment: int | None = None, *,
                locks: bool = False) -> list[Held]:
    """The same of an experiment that need not be there yet: all by primary key."""
    of_all = Q(user=None, group=None, token=None, experiment=None)
    concerned = Q(pk__in=[])
    if owner is not None:
        concerned |= Q(user=owner) | of_all
    if group is not None:
        concerned |= Q(group=group)
    if some := [token for token in tokens if token is not None]:
        concerned |= Q(token__in=some)
    if experiment is not None:
        concerned |= Q(experiment=experiment)
    rows = Budget.objects.filter(concerned).select_related("user", "group", "token", "experiment").order_by("pk")
    if locks:
        rows = rows.select_for_update(of=("self",))
    found = list(rows)
    periods_of_owner = {row.period for row in found if row.user_id is not None}
    return [Held(row, owner or 0) if _is_of_all(row) else Held(row) for row in found
            if not (_is_of_all(row) and row.period in periods_of_owner)]


def _is_of_all(budget: Budget) -> bool:
    return budget.user_id is None and budget.group_id is None and budget.token_id is None \
        and budget.experiment_id is None


def is_limited(experiment: Experiment, token: int | None = None) -> bool:
    """Whether any budget limits this experiment's trials, or one that was asked for with this token."""
    return bool(budgets_of(experiment, [token]))
