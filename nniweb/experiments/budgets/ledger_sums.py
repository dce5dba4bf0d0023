"""Sums of the ledger for budgets. A kept sum and the rows since: the history is not read again and again.

A kept sum (``BudgetUse``) says up to which row it goes. On PostgreSQL rows are committed in another order than they get
their primary keys, so it goes only to a row before which no other will appear any more (``_settled``).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import asdict

from django.db import connection
from django.db.models import Q

from nniweb.experiments.budgets.concerned import subject_of
from nniweb.experiments.budgets.spending import Spending
from nniweb.experiments.models import Budget, BudgetUse, LedgerEntry
from nniweb.experiments.sql.selected_rows import places, select

#: A sum is kept anew after so many rows.
KEEP_AFTER = 100
#: No number in a column is larger.
MOST = 2**63 - 1
_USE = ("id", "budget", "person", "month", "counted_to", "trials", "milliseconds", "gpu_milliseconds",
        "milli_cpu_milliseconds", "money")
#: SQLite fails where a sum of whole numbers has more than 64 bits: sums are of the numbers divided by this, and of what
#: that leaves.
PART = 1_000_000


def _in_parts(number: str) -> str:
    return f"SUM({number} / {PART}), SUM({number} %% {PART})"


#: The fields of ``Spending`` in their order, each after the first in parts, and the number of rows. By hand: each start
#: of a trial asks.
_SUMS = (f"SELECT COUNT(CASE WHEN number = 1 THEN 1 END), {_in_parts('milliseconds')},"
         f" {_in_parts('(gpus * milliseconds)')}, {_in_parts('(milli_cpus * milliseconds)')}, {_in_parts('money')},"
         f" COUNT(*) FROM {LedgerEntry._meta.db_table} WHERE ")


def entries_of(budget: Budget, person: int, month: str) -> Q:
    """Condition of the rows that count towards a budget. ``person``: of a budget that each person has. ``month``: ""
    of one in total.
    """
    kind, key = subject_of(budget, person)
    return Q(**{f"{kind}_id": key}, **({"month": month} if month else {}))


def sum_of_experiments(pks: Collection[int]) -> Spending:
    """What the ended attempts of these experiments took."""
    return _sum(f"experiment_id IN {places(pks)}", list(pks))[0] if pks else Spending()


def sum_for(budget: Budget, person: int, month: str, *, after: int = 0, up_to: int = MOST) -> tuple[Spending, int]:
    """What the rows of a budget add up to whose primary keys are in this range, and how many they are."""
    kind, key = subject_of(budget, person)
    return _sum(f"{kind}_id = %s AND id > %s AND id <= %s{' AND month = %s' if month else ''}",
                [key, after, up_to, *([month] if month else [])])


def _sum(condition: str, values: Sequence[int | str]) -> tuple[Spending, int]:
    with connection.cursor() as cursor:
        cursor.execute(_SUMS + condition, values)
        trials, *parts, rows = (int(value or 0) for value in cursor.fetchone())
    return Spending(trials, *(PART * whole + rest for whole, rest in zip(
        parts[::2], parts[1::2], strict=True))), rows


def spent(budget: Budget, person: int, month: str, *, keeps: bool = False) -> Spending:
    """What attempts that have ended took of a budget. Exact, whatever is written meanwhile.

    ``keeps``: whether the sum may be kept, in a transaction that holds the budget's row.
    """
    found = select(BudgetUse, _USE, "WHERE budget_id = %s AND person = %s AND month = %s", [budget.pk, person, month])
    kept = found[0] if found else BudgetUse(budget=budget, person=person, month=month)
    since, rows = sum_for(budget, person, month, after=kept.counted_to)
    if keeps and rows >= KEEP_AFTER:
        _keep(kept, budget)
    return kept_spending(kept) + since


def kept_spending(kept: BudgetUse) -> Spending:
    """The sum that is kept."""
    return Spending(kept.trials, kept.milliseconds, kept.gpu_milliseconds, kept.milli_cpu_milliseconds, kept.money)


def _keep(kept: BudgetUse, budget: Budget) -> None:
    """Store the sum up to the last row that is certain. Whoever read the old one goes on from its own row."""
    up_to = _settled.row()
    if up_to <= kept.counted_to:
        return
    more, _ = sum_for(budget, kept.person, kept.month, after=kept.counted_to, up_to=up_to)
    total = kept_spending(kept) + more
    if max(total.numbers()) > MOST:  # its columns take no more
        return
    BudgetUse.objects.update_or_create(
        budget=budget, person=kept.person, month=kept.month, defaults={**asdict(total), "counted_to": up_to})


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
