"""Budgets and prices as people set them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction

from nniweb.experiments.access import audit
from nniweb.experiments.access.held_row import hold
from nniweb.experiments.budgets.concerned import budgets_for
from nniweb.experiments.budgets.spending import limits_of
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Budget, Experiment, Price
from trainingservice.reasons import Reason

#: Names of limits in config files.
IN_FILES = {"gpuHours": "gpu_hours", "cpuHours": "cpu_hours", "trials": "trials", "wallHours": "wall_hours",
            "money": "money"}


def set_budget(budget: Budget, fields: Mapping[str, Any]) -> Budget:
    """Make or change one (``user``, ``group``, ``token`` or ``experiment``, ``period`` and the limits). Raises Refused.

    What runs goes on; trials that wait for a limit that was raised start within a second.
    """
    is_new = budget.pk is None
    with transaction.atomic():
        _store(budget, fields)
        audit.record("budget.create" if is_new else "budget.change", budget, of=budget.of_whom,
                     period=str(budget.period), **_in_log(budget))
    return budget


def delete_budget(budget: Budget) -> None:
    """Without it there is no limit, or that for everybody else. What was used stays in the ledger."""
    with transaction.atomic():
        audit.record("budget.delete", budget, of=budget.of_whom, period=str(budget.period))
        budget.delete()


def store_own_budget(experiment: Experiment, limits: Mapping[str, float]) -> None:
    """Give an experiment the budget that its config file has, {} for none. In the transaction that stores it."""
    Budget.objects.filter(experiment=experiment, is_own=True).delete()
    if limits:
        Budget.objects.create(experiment=experiment, is_own=True, period=Budget.Period.TOTAL, **{
            IN_FILES[name]: int(limit) if name == "trials" else Decimal(str(limit)) for name, limit in limits.items()})


def set_price(price: Price, fields: Mapping[str, Any]) -> Price:
    """Make or change what an hour costs (``cluster``, ``machine``, ``gpu_hour``, ``cpu_hour``). Raises Refused.

    Attempts that end from now on have it. What is in the ledger stays as it is.
    """
    is_new = price.pk is None
    with transaction.atomic():
        _store(price, fields)
        audit.record("price.create" if is_new else "price.change", price.cluster, machine=price.machine,
                     gpu_hour=float(price.gpu_hour), cpu_hour=float(price.cpu_hour))
    return price


def delete_price(price: Price) -> None:
    """Attempts that end from now on cost what the cluster's price says, or nothing."""
    with transaction.atomic():
        audit.record("price.delete", price.cluster, machine=price.machine)
        price.delete()


def why_never_in_budget(owner: int | None, group: int | None, token: int | None, gpus_of_a_trial: int) -> str:
    """Why no trial of such an experiment could ever start, a Reason; "" where one could. All by primary key.

    A budget that is used up is no reason: an experiment that waits for it starts its trials when there is more.
    """
    for held in budgets_for(owner, group, [token]):
        for unit, limit in limits_of(held.budget).items():
            if limit <= 0 and (unit != "gpu_hours" or gpus_of_a_trial):
                return Reason("no_budget", whose=held.whose, unit=unit, period=str(held.budget.period))
    return ""


def _store(row: Budget | Price, fields: Mapping[str, Any]) -> None:
    if row.pk is not None:
        hold(row)
    for name, value in fields.items():
        setattr(row, name, value)
    try:
        row.full_clean()
    except ValidationError as error:
        raise Refused.for_fields([("" if field == NON_FIELD_ERRORS else field, " ".join(said))
                                  for field, said in error.message_dict.items()]) from None
    row.save()


def _in_log(budget: Budget) -> dict[str, Any]:
    return {unit: float(limit) for unit, limit in limits_of(budget).items()}
