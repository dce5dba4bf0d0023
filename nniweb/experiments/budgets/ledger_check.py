"""Computes the ledger again: from the attempts that are still there, and its sums from its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum

from nniweb.experiments.budgets.ledger import measured
from nniweb.experiments.budgets.ledger_sums import PART, kept_spending, sum_for
from nniweb.experiments.budgets.spending import money_for
from nniweb.experiments.models import Attempt, BudgetUse, LedgerEntry
from nniweb.experiments.models.limits import MICROS, MILLISECONDS_PER_HOUR, month_of

#: ``Attempt.end_reason`` of attempts that ran elsewhere.
_IMPORTED = "imported"
_AT_ONCE = 500


@dataclass(frozen=True)
class Month:
    """What the ledger has of one month."""

    month: str
    attempts: int
    trials: int
    milliseconds: int
    gpu_milliseconds: int
    #: In millionths.
    micros: int

    @property
    def hours(self) -> float:
        return self.milliseconds / MILLISECONDS_PER_HOUR

    @property
    def gpu_hours(self) -> float:
        return self.gpu_milliseconds / MILLISECONDS_PER_HOUR

    @property
    def money(self) -> float:
        return self.micros / MICROS


def months(entries: QuerySet[LedgerEntry]) -> list[Month]:
    """What these rows add up to, by month, the oldest first."""
    gpu_time, cost = F("gpus") * F("milliseconds"), F("money")
    rows = entries.values("month").annotate(
        attempts=Count("pk"), trials=Count("pk", filter=Q(number=1)), time=Sum("milliseconds"),
        gpu_times=Sum(gpu_time / PART), gpu_time_left=Sum(gpu_time % PART), costs=Sum(cost / PART),
        cost_left=Sum(cost % PART)).order_by("month")
    return [Month(row["month"], row["attempts"], row["trials"], int(row["time"]),
                  PART * int(row["gpu_times"]) + int(row["gpu_time_left"]),
                  PART * int(row["costs"]) + int(row["cost_left"])) for row in rows]


def differences() -> Iterator[str]:
    """What is not as it is computed again, a sentence each; nothing where all agrees.

    While attempts end, one may be found to differ that is right a moment later.
    """
    yield from _rows_that_differ()
    yield from _attempts_without_a_row()
    yield from _sums_that_differ()


def _rows_that_differ() -> Iterator[str]:
    last = 0
    while some := list(LedgerEntry.objects.filter(pk__gt=last).order_by("pk")[:_AT_ONCE]):
        last = some[-1].pk
        found = {attempt["job_name"]: attempt for attempt in Attempt.objects.filter(
            job_name__in=[row.job_name for row in some]).values(
            "job_name", "stage", "created_at", "started_at", "ended_at", "end_received_at", "duration", "number",
            "charged_owner_id", "charged_group_id")}
        for row in some:
            cost = money_for(row.milliseconds, row.gpus, row.milli_cpus, row.gpu_hour_price, row.cpu_hour_price)
            if row.money != cost:
                yield _differs(row, "money", row.money, cost, "millionths")
            if (attempt := found.get(row.job_name)) is not None:  # else its experiment was deleted
                yield from _row_that_differs(row, attempt)


def _row_that_differs(row: LedgerEntry, attempt: Mapping[str, Any]) -> Iterator[str]:
    if attempt["stage"] != Attempt.Stage.ENDED:
        yield f"The ledger has {row.job_name}, which has not ended."
        return
    by_keeper = row.measured_by == LedgerEntry.Measure.KEEPER or (
        row.measured_by == LedgerEntry.Measure.NONE and attempt["duration"] is not None)
    milliseconds, _ = measured(attempt["created_at"], attempt["started_at"], attempt["duration"], by_keeper=by_keeper,
                               ended_at=attempt["ended_at"], now=attempt["end_received_at"])
    if milliseconds != row.milliseconds:
        yield _differs(row, "milliseconds", row.milliseconds, milliseconds, "ms")
    if row.number != attempt["number"]:
        yield _differs(row, "attempt", row.number, attempt["number"])
    for whose, written, charged in (("owner", row.owner_id, attempt["charged_owner_id"]),
                                    ("group", row.group_id, attempt["charged_group_id"])):
        if None not in (written, charged) and written != charged:  # None: deleted, or an earlier version made it
            yield _differs(row, whose, written, charged, "id")
    if row.month != (month := month_of(attempt["created_at"])):
        yield _differs(row, "month", row.month, month)


def _differs(row: LedgerEntry, what: str, written: object, computed: object, unit: str = "") -> str:
    return f"{row.job_name}: {what} {written} is in the ledger, {computed} is computed{f' ({unit})' if unit else ''}."


def _attempts_without_a_row() -> Iterator[str]:
    first = LedgerEntry.objects.order_by("pk").values_list("at", flat=True).first()
    if first is None:
        return
    missing = Attempt.objects.filter(stage=Attempt.Stage.ENDED, end_received_at__gte=first).exclude(
        end_reason=_IMPORTED).exclude(Exists(LedgerEntry.objects.filter(job_name=OuterRef("job_name"))))
    for name in missing.order_by("pk").values_list("job_name", flat=True).iterator():
        yield f"{name} has ended and is not in the ledger."


def _sums_that_differ() -> Iterator[str]:
    for kept in BudgetUse.objects.select_related(
            "budget__user", "budget__group", "budget__token", "budget__experiment").order_by("pk"):
        computed, _ = sum_for(kept.budget, kept.person, kept.month, up_to=kept.counted_to)
        if computed != kept_spending(kept):
            yield (f"The kept sum of the {kept.budget} ({kept.month or 'total'}) is {asdict(kept_spending(kept))}, and "
                   f"{asdict(computed)} is computed.")
