"""Forecasts and budgets in sentences, for notes of a launch and for pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from nniweb.experiments.budgets.forecast import Basis, Forecast
from nniweb.experiments.budgets.spending import Spending, Unit
from nniweb.experiments.budgets.standing import Standing
from trainingservice.reasons import whose_budget

_NAMES: dict[Unit, str] = {"gpu_hours": "GPU-hours", "cpu_hours": "CPU-hours", "trials": "trials",
                           "wall_hours": "hours of trials", "money": "of money"}
_NAMES_OF_ONE: dict[Unit, str] = {"gpu_hours": "GPU-hour", "cpu_hours": "CPU-hour", "trials": "trial",
                                  "wall_hours": "hour of trials", "money": "of money"}
#: By how many trials it is known how long one takes: of several, and of one.
_FROM: dict[Basis, tuple[str, str]] = {
    "trials": ("the {} trials that have ended", "the trial that has ended"),
    "earlier_experiments": ("{} trials of earlier experiments with this command",
                            "a trial of an earlier experiment with this command"),
    "max_trial_duration": ("maxTrialDuration, the most that a trial may take",) * 2}


@dataclass(frozen=True)
class BudgetRow:
    """One limit of a budget, for a table of a page. Amounts are numbers of the unit."""

    whose: str
    period: str
    unit: str
    limit: float
    used: float
    running: float
    left: float
    #: Whether nothing is left, and whether less is left than the rest of an experiment is expected to take.
    is_used_up: bool
    is_exceeded: bool


def budget_rows(budgets: Iterable[Standing], found: Forecast | None = None) -> list[BudgetRow]:
    """The limits of these budgets. ``found``: of the experiment whose page it is."""
    rows = []
    for budget in budgets:
        exceeded = found.exceeds(budget) if found is not None else []
        whose = whose_budget(**budget.held.whose)
        rows += [BudgetRow(
            whose[:1].upper() + whose[1:], "this month" if budget.begins_anew is not None else "in total",
            _NAMES[unit].removeprefix("of "), float(limit), float(budget.used.amount(unit)),
            float(budget.running.amount(unit)), float(budget.left(unit)), budget.left(unit) <= 0, unit in exceeded)
            for unit, limit in budget.limits.items()]
    return rows


def amount_in_words(amount: Decimal, unit: Unit) -> str:
    """Such as 2.5 GPU-hours, 1 trial or less than 0.01 hours of trials."""
    number = round(float(amount), 2)
    if amount and not number:
        return f"less than 0.01 {_NAMES[unit]}"
    return f"{number:g} {(_NAMES_OF_ONE if _is_one(amount) else _NAMES)[unit]}"


def _is_one(amount: Decimal) -> bool:
    """Whether it is shown as 1."""
    return round(float(amount), 2) == 1


def spending_in_words(spending: Spending) -> str:
    """The amounts that are not nothing."""
    units: tuple[Unit, ...] = ("trials", "wall_hours", "gpu_hours", "money")
    return ", ".join(amount_in_words(spending.amount(unit), unit) for unit in units if spending.amount(unit))


def forecast_in_words(found: Forecast) -> list[str]:
    """Nothing where there is no budget and nothing is known."""
    sentences = []
    if found.expected is not None and found.basis is not None:
        known = _FROM[found.basis][found.known_trials == 1].format(found.known_trials)
        sentences.append(f"Expected in all: {spending_in_words(found.expected)} "
                         f"({round(found.seconds_per_trial or 0.0, 1):g} s a trial, by {known}).")
    elif found.budgets:
        sentences.append("What the experiment will take is not known: "
                         + ("no earlier trial shows how long one takes." if found.seconds_per_trial is None else
                            "it has neither maxTrialNumber nor maxExperimentDuration."))
    for budget in found.budgets:
        whose = whose_budget(**budget.held.whose)
        period = "this month" if budget.begins_anew is not None else "in total"
        for unit in budget.limits:
            left = max(budget.left(unit), Decimal(0))
            said = f"Of {whose} ({amount_in_words(budget.limits[unit], unit)} {period}), " \
                   f"{amount_in_words(left, unit)} {'is' if unit == 'money' or _is_one(left) else 'are'} left"
            if left <= 0:
                sentences.append(f"{said}: trials wait until there is more.")
            elif unit in found.exceeds(budget):
                sentences.append(f"{said}, which is less than expected: trials will wait.")
    return sentences
