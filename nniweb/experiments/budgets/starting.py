"""Which trials budgets let start.

As with quotas, nothing that runs is stopped: a budget decides what starts. A trial may start as long as something is
left of each limit; so a budget is exceeded by no more than what runs when it is used up. Trials are counted when they
begin, so that no trial more begins than a budget has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from nniweb.experiments.budgets.concerned import Held, budgets_of, is_any_budget
from nniweb.experiments.budgets.spending import Unit
from nniweb.experiments.budgets.standing import Standing, attempts_under_way, standing
from nniweb.experiments.models import Experiment, Trial
from trainingservice.reasons import Reason


@dataclass(frozen=True)
class Candidate:
    """A trial that would start. ``has_begun``: it had an attempt before, so it is no trial more. ``token``: primary key
    of the one by which it was asked for; None: it counts to its experiment's.
    """

    has_begun: bool = False
    token: int | None = None


def candidate_of(trial: Trial, has_begun: bool) -> Candidate:
    return Candidate(has_begun, trial.token_id)


def why_not_in_budget(experiment: Experiment, candidates: Sequence[Candidate], now: datetime, *, locks: bool = True
                      ) -> list[Reason | None]:
    """Of each of these trials, in order, what forbids that it starts; None where nothing does.

    In the transaction that starts them: who starts trials by the same budget elsewhere waits for its end, and sees
    them. Without ``locks`` it is an estimate. One question where there is no budget.
    """
    if not candidates:
        return []
    helds = budgets_of(experiment, {one.token for one in candidates}, locks=locks)
    if not helds:
        return [None] * len(candidates)
    under_way = attempts_under_way(helds)
    accounts = [_Account(standing(held, now, under_way, keeps=locks)) for held in helds]
    found: list[Reason | None] = []
    for candidate in candidates:
        token = candidate.token if candidate.token is not None else experiment.token_id
        its = [one for one in accounts if one.held.budget.token_id in (None, token)]
        why_not = next((reason for one in its if (reason := one.why_not(candidate, experiment)) is not None), None)
        if why_not is None and not candidate.has_begun:
            for one in its:
                one.begin()
        found.append(why_not)
    return found


class _Account:
    """A budget while trials are chosen."""

    def __init__(self, now: Standing) -> None:
        self.held = now.held
        self._standing = now
        self._begun = 0
        self._used_up = set(now.used_up) - {"trials"}

    def why_not(self, candidate: Candidate, experiment: Experiment) -> Reason | None:
        limits = self._standing.limits
        for unit in limits:
            if unit == "trials":
                if not candidate.has_begun and self._standing.left(unit) - self._begun < 1:
                    return used_up(self._standing, unit)
            elif unit in self._used_up and not (unit == "gpu_hours" and not experiment.gpus_of_a_trial):
                return used_up(self._standing, unit)
        return None

    def begin(self) -> None:
        self._begun += 1


def used_up(now: Standing, unit: Unit) -> Reason:
    """Why a trial waits; the same as long as it waits for the same."""
    return Reason("budget", **budget_arguments(now.held, unit, now.limits[unit], now.begins_anew))


def budget_arguments(held: Held, unit: Unit, limit: Decimal, begins_anew: datetime | None) -> dict[str, Any]:
    """Arguments of reasons about a budget of which nothing is left."""
    return {"whose": held.whose, "unit": unit, "most": number(limit), "left": 0, "period": str(held.budget.period),
            "again": f"{begins_anew.astimezone(UTC):%Y-%m-%d}" if begins_anew is not None else ""}


def number(amount: Decimal) -> int | float:
    """For JSON: a whole number where it is one."""
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def how_many_in_budget(experiment: Experiment, wanted: int, now: datetime) -> tuple[int, str]:
    """How many of so many new trials may start, and why not all. As ``why_not_in_budget``."""
    why_not = why_not_in_budget(experiment, [Candidate()] * wanted, now)
    return next(((count, why) for count, why in enumerate(why_not) if why is not None), (wanted, ""))


@dataclass(frozen=True)
class NewTrials:
    """So many new trials may start; if fewer than wanted, ``reason`` says why."""

    count: int
    reason: str = ""


class RoundBudgets:
    """What one round of a cluster knows of budgets: an estimate, so that tuners are asked for no trials that could not
    start. What starts is decided by ``why_not_in_budget``. Used by the round's thread only.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        #: By ``Held.key``: experiments of one person share them.
        self._standings: dict[tuple[int, int], Standing] = {}

    @cached_property
    def any_budget(self) -> bool:
        """Whether there is a budget at all."""
        return is_any_budget()

    def room(self, experiment: Experiment, wanted: int) -> NewTrials:
        """How many of ``wanted`` new trials of this experiment may start."""
        if wanted <= 0 or not self.any_budget:
            return NewTrials(max(0, wanted))
        helds = budgets_of(experiment)
        if missing := [held for held in helds if held.key not in self._standings]:
            under_way = attempts_under_way(missing)
            self._standings |= {held.key: standing(held, self._now, under_way) for held in missing}
        accounts = [_Account(self._standings[held.key]) for held in helds]
        return NewTrials(*_begin(accounts, experiment, wanted))


def _begin(accounts: Sequence[_Account], experiment: Experiment, wanted: int) -> tuple[int, str]:
    for count in range(wanted):
        for one in accounts:
            if (why := one.why_not(Candidate(), experiment)) is not None:
                return count, why
        for one in accounts:
            one.begin()
    return wanted, ""
