"""Writes the ledger: one row for each attempt that has ended, in the transaction that ends it."""

from __future__ import annotations

from datetime import datetime

from nniweb.experiments.budgets.attempt_costs import AttemptCosts, costs_of
from nniweb.experiments.budgets.spending import money_for
from nniweb.experiments.models import LedgerEntry
from nniweb.experiments.models.limits import month_of
from nniweb.experiments.sql.new_rows import insert_unless_there

#: More than this is not believed of one attempt, whoever says it: milliseconds of a year, and millionths of money.
_LONGEST, _DEAREST = 366 * 24 * 3_600_000, 10**15


def charge(attempt_pk: int, *, duration: float | None, by_keeper: bool, ended_at: datetime, now: datetime) -> bool:
    """Write what an attempt took that ends in this transaction; whether it was not there yet.

    ``duration``: seconds, None where nobody measured it. ``by_keeper``: whether its keeper did. ``ended_at``: as the
    attempt has it. ``now``: when the server takes the end, by its clock.
    """
    [costs] = costs_of("a.id = %s", [attempt_pk])
    milliseconds, measure = measured(costs.created_at, costs.started_at, duration, by_keeper=by_keeper,
                                     ended_at=ended_at, now=now)
    return insert_unless_there(entry_of(costs, milliseconds, measure, ended_at, now))


def measured(created_at: datetime, started_at: datetime | None, duration: float | None, *, by_keeper: bool,
             ended_at: datetime, now: datetime) -> tuple[int, LedgerEntry.Measure]:
    """How long an attempt ran, in milliseconds, and who says so.

    A keeper's word stands, whatever clocks say. Without it the platform's or the server's times count, and never more
    than has passed since the server made the attempt.
    """
    if by_keeper and duration is not None:
        told = _whole(duration)
        return told, LedgerEntry.Measure.KEEPER if told or started_at is not None else LedgerEntry.Measure.NONE
    if duration is None:
        if started_at is None:
            return 0, LedgerEntry.Measure.NONE
        duration = (ended_at - started_at).total_seconds()
    passed = (max(now, ended_at) - created_at).total_seconds()
    return _whole(min(duration, passed)), LedgerEntry.Measure.SERVER


def _whole(seconds: float) -> int:
    return round(min(max(seconds * 1000, 0.0), float(_LONGEST)))


def entry_of(costs: AttemptCosts, milliseconds: int, measure: str, ended_at: datetime, now: datetime) -> LedgerEntry:
    """The row of an attempt that ran so long; it is not stored."""
    money = money_for(milliseconds, costs.gpus, costs.milli_cpus, costs.gpu_hour_price, costs.cpu_hour_price)
    return LedgerEntry(
        at=now, job_name=costs.job_name, number=costs.number, trial=costs.trial, sequence_id=costs.sequence_id,
        experiment_id=costs.experiment_pk, experiment=costs.experiment, experiment_name=costs.experiment_name,
        owner_id=costs.owner_pk, owner=costs.owner, group_id=costs.group_pk, group=costs.group,
        token_id=costs.token_pk, token=costs.token, cluster_id=costs.cluster_pk, cluster=costs.cluster,
        machine=costs.machine, month=month_of(costs.created_at), began_at=costs.started_at, ended_at=ended_at,
        milliseconds=milliseconds, measured_by=measure, gpus=costs.gpus, milli_cpus=costs.milli_cpus,
        gpu_hour_price=costs.gpu_hour_price, cpu_hour_price=costs.cpu_hour_price, money=min(money, _DEAREST))
