"""Sums of the ledger for budgets. A kept sum and the rows since: the history is not read again and again.

A kept sum (``BudgetUse``) says up to which row it goes. On PostgreSQL rows are committed in another order than they get
their primary keys, so it goes only to a row before which no other will appear any more (``_settled``).
"""

from __future__ import annotations

import threading
from dataclasses import asdict

from django.db import connection
from django.db.models import Count, F, Q, Sum

from nniweb.experiments.budgets.spending import Spending
from nniweb.experiments.models import Budget, BudgetUse, LedgerEntry

#: A sum is kept anew after so many rows.
KEEP_AFTER = 100
#: Of ``Spending``, in the order of its fields.
_OF_ATTEMPTS = (Count("pk", filter=Q(number=1)), Sum("milliseconds"), Sum(F("gpus") * F("milliseconds")),
                Sum(F("milli_cpus") * F("milliseconds")), Sum("money"))


def entries_of(budget: Budget, person: int, month: str) -> Q:
    """Condition of the rows that count towards a budget. ``person``: of a budget that each person has. ``month``: ""
    of one in total.
    """
    if budget.experiment_id is not None:
        whose = Q(experiment_id=budget.experiment_id)
    elif budget.token_id is not None:
        whose = Q(token_id=budget.token_id)
    elif budget.group_id is not None:
        whose = Q(group_id=budget.group_id)
    else:
        whose = Q(owner_id=budget.user_id if budget.user_id is not None else person)
    return whose & Q(month=month) if month else whose


def sum_of(entries: Q) -> tuple[Spending, int]:
    """What these rows add up to, and how many they are."""
    found = LedgerEntry.objects.filter(entries).aggregate(
        rows=Count("pk"), **{f"sum{place}": each for place, each in enumerate(_OF_ATTEMPTS)})
    return Spending(*(int(found[f"sum{place}"] or 0) for place in range(len(_OF_ATTEMPTS)))), found["rows"]


def spent(budget: Budget, person: int, month: str, *, keeps: bool = False) -> Spending:
    """What attempts that have ended took of a budget. Exact, whatever is written meanwhile.

    ``keeps``: whether the sum may be kept, in a transaction that holds the budget's row.
    """
    kept = BudgetUse.objects.filter(budget=budget, person=person, month=month).first() or BudgetUse(
        budget=budget, person=person, month=month)
    entries = entries_of(budget, person, month)
    since, rows = sum_of(entries & Q(pk__gt=kept.counted_to))
    if keeps and rows >= KEEP_AFTER:
        _keep(kept, entries)
    return kept_spending(kept) + since


def kept_spending(kept: BudgetUse) -> Spending:
    """The sum that is kept."""
    return Spending(kept.trials, kept.milliseconds, kept.gpu_milliseconds, kept.milli_cpu_milliseconds, kept.money)


def _keep(kept: BudgetUse, entries: Q) -> None:
    """Store the sum up to the last row that is certain. Whoever read the old one goes on from its own row."""
    up_to = _settled.row()
    if up_to <= kept.counted_to:
        return
    more, _ = sum_of(entries & Q(pk__gt=kept.counted_to, pk__lte=up_to))
    BudgetUse.objects.update_or_create(
        budget_id=kept.budget_id, person=kept.person, month=kept.month,
        defaults={**asdict(kept_spending(kept) + more), "counted_to": up_to})


class _Settled:
    """Up to which row of the ledger all are there that will ever be. For all threads of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._row = 0
        #: A row that was there, and the transaction before which all must have ended until it counts.
        self._noted: tuple[int, int] | None = None

    def row(self) -> int:
        """Its primary key. Everybody who writes a row has written another one before in the same transaction, so that
        PostgreSQL has given the transaction its number before the row's primary key was taken.
        """
        last = LedgerEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        if connection.vendor != "postgresql":
            return last  # SQLite has one writer at a time
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_snapshot_xmin(now_seen)::text, pg_snapshot_xmax(now_seen)::text"
                           " FROM (SELECT pg_current_snapshot() AS now_seen) AS seen")
            oldest_open, next_one = map(int, cursor.fetchone() or ())
        with self._lock:
            if self._noted is not None and oldest_open >= self._noted[1]:
                self._row, self._noted = self._noted[0], None
            if self._noted is None:
                self._noted = (last, next_one)
            return self._row


_settled = _Settled()
