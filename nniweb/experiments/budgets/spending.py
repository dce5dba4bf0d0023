"""Amounts that budgets limit, in whole numbers, so that sums of them are exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from nniweb.experiments.models import Budget
from nniweb.experiments.models.limits import MICROS, MILLISECONDS_PER_HOUR

#: What a budget may limit: names of the fields of ``Budget``.
Unit = Literal["gpu_hours", "cpu_hours", "trials", "wall_hours", "money"]
UNITS: tuple[Unit, ...] = ("gpu_hours", "cpu_hours", "trials", "wall_hours", "money")


@dataclass(frozen=True)
class Spending:
    """What some attempts took."""

    trials: int = 0
    #: Milliseconds that they ran; these times GPUs; and times thousandths of CPUs.
    milliseconds: int = 0
    gpu_milliseconds: int = 0
    milli_cpu_milliseconds: int = 0
    #: Millionths.
    money: int = 0

    def __add__(self, other: Spending) -> Spending:
        return Spending(*map(int.__add__, self.numbers(), other.numbers()))

    def numbers(self) -> tuple[int, ...]:
        """All of them, in order."""
        return (self.trials, self.milliseconds, self.gpu_milliseconds, self.milli_cpu_milliseconds, self.money)

    def amount(self, unit: Unit) -> Decimal:
        """In the unit of budgets: hours, trials, money."""
        if unit == "trials":
            return Decimal(self.trials)
        if unit == "money":
            return Decimal(self.money) / MICROS
        milliseconds = {"gpu_hours": Decimal(self.gpu_milliseconds), "wall_hours": Decimal(self.milliseconds),
                        "cpu_hours": Decimal(self.milli_cpu_milliseconds) / 1000}[unit]
        return milliseconds / MILLISECONDS_PER_HOUR


def limits_of(budget: Budget) -> Mapping[Unit, Decimal]:
    """The limits that a budget has."""
    found = {unit: getattr(budget, unit) for unit in UNITS}
    return {unit: Decimal(limit) for unit, limit in found.items() if limit is not None}


def money_for(milliseconds: int, gpus: int, milli_cpus: int, gpu_hour_price: int, cpu_hour_price: int) -> int:
    """What it costs that so many GPUs and thousandths of CPUs are held for so long, in millionths, rounded down.

    Prices are those of an hour, in millionths.
    """
    return milliseconds * (1000 * gpus * gpu_hour_price + milli_cpus * cpu_hour_price) // (
        1000 * MILLISECONDS_PER_HOUR)
