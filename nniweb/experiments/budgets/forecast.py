"""What an experiment will take in all: from its own trials so far, or before its launch from earlier experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal

from nniweb.experiments.budgets.attempt_costs import millionths
from nniweb.experiments.budgets.concerned import Held, budgets_for, budgets_of
from nniweb.experiments.budgets.ledger_sums import sum_of_experiments
from nniweb.experiments.budgets.spending import Spending, Unit, money_for
from nniweb.experiments.budgets.standing import Standing, attempts_under_way, running_spending, standing
from nniweb.experiments.models import Budget, Cluster, Experiment, Price, User
from nniweb.experiments.results.running_time import running_seconds

#: Earlier experiments that are looked at.
_EARLIER = 5
#: From what the time of a trial is known: trials of the experiment itself, of earlier experiments with the same
#: command, or (then it is the most that a trial may take) ``maxTrialDuration``.
Basis = Literal["trials", "earlier_experiments", "max_trial_duration"]


@dataclass(frozen=True)
class Forecast:
    """What is expected of an experiment from its beginning to its end. None: not known."""

    #: Trials in all.
    trials: int | None = None
    seconds_per_trial: float | None = None
    basis: Basis | None = None
    #: From how many trials.
    known_trials: int = 0
    #: Of the experiment so far.
    used: Spending = Spending()
    running: Spending = Spending()
    expected: Spending | None = None
    #: The budgets towards which its trials count, now.
    budgets: Sequence[Standing] = field(default=())

    def exceeds(self, budget: Standing) -> list[Unit]:
        """Limits of which less is left than the rest of the experiment is expected to take."""
        if self.expected is None:
            return []
        so_far = self.used + self.running
        return [unit for unit in budget.limits
                if self.expected.amount(unit) - so_far.amount(unit) > max(budget.left(unit), Decimal(0))]


def forecast(experiment: Experiment, now: datetime) -> Forecast:
    """Of an experiment that was launched. Its retries are in the mean of its trials."""
    own_attempts = attempts_under_way([Held(Budget(experiment=experiment))])
    running = sum((running_spending(costs, now) for costs in own_attempts), Spending())
    used = sum_of_experiments([experiment.pk])
    helds = budgets_of(experiment)
    under_way = attempts_under_way(helds)
    budgets = [standing(one, now, under_way) for one in helds]
    known = used.trials
    seconds = used.milliseconds / 1000 / known if known else None
    basis: Basis | None = "trials" if known else None
    if experiment.is_finished:
        return Forecast(known, seconds, basis, known, used, running, used + running, budgets)
    trials = _trials_of(experiment, seconds, known, now)
    expected = None if trials is None or not known else _at_least(_times(used, trials, known), used + running)
    return Forecast(trials, seconds, basis, known, used, running, expected, budgets)


def forecast_launch(owner: User, group: int | None, token: int | None, *, command: str, cluster: Cluster, gpus: int,
                    cpus: float, concurrency: int, max_trials: int | None, max_seconds: float | None,
                    max_trial_seconds: float | None, now: datetime) -> Forecast:
    """Of an experiment that would be launched. ``cluster``: its home, stored or not; ``max_seconds``: of the
    experiment; group and token by primary key.
    """
    helds = budgets_for(owner.pk, group, [token])
    under_way = attempts_under_way(helds)
    budgets = [standing(one, now, under_way) for one in helds]
    earlier = list(Experiment.objects.filter(owner=owner, trial_command=command, deleted_at=None).order_by(
        "-created_at").values_list("pk", flat=True)[:_EARLIER])
    seen = sum_of_experiments(earlier)
    seconds: float | None = None
    basis: Basis | None = None
    if seen.trials:
        seconds, basis = seen.milliseconds / 1000 / seen.trials, "earlier_experiments"
        if max_trial_seconds is not None:
            seconds = min(seconds, max_trial_seconds)
    elif max_trial_seconds is not None:
        seconds, basis = max_trial_seconds, "max_trial_duration"
    trials = max_trials
    if max_seconds is not None and seconds:
        in_time = max(1, round(concurrency * max_seconds / seconds))
        trials = in_time if trials is None else min(trials, in_time)
    expected = None
    if trials is not None and seconds is not None:
        expected = _launched(trials, seconds, gpus, round(cpus * 1000), cluster)
    return Forecast(trials, seconds, basis, seen.trials, expected=expected, budgets=budgets)


def _trials_of(experiment: Experiment, seconds: float | None, known: int, now: datetime) -> int | None:
    """How many trials there will be, by the limits that it has."""
    trials = experiment.max_trial_number
    if experiment.max_duration is not None and seconds:
        left = max(0.0, experiment.max_duration - running_seconds(experiment, now))
        in_time = known + round(experiment.trial_concurrency * left / seconds)
        trials = in_time if trials is None else min(trials, in_time)
    return trials


def _times(used: Spending, trials: int, known: int) -> Spending:
    return Spending(trials, *(amount * trials // known for amount in (
        used.milliseconds, used.gpu_milliseconds, used.milli_cpu_milliseconds, used.money)))


def _at_least(expected: Spending, so_far: Spending) -> Spending:
    return Spending(*(max(expected_one, one) for expected_one, one in zip(
        expected.numbers(), so_far.numbers(), strict=True)))


def _launched(trials: int, seconds: float, gpus: int, milli_cpus: int, cluster: Cluster) -> Spending:
    milliseconds = trials * round(seconds * 1000)
    price = Price.objects.filter(cluster=cluster, machine="").first() if cluster.pk is not None else None
    gpu_hour, cpu_hour = (millionths(price.gpu_hour), millionths(price.cpu_hour)) if price is not None else (0, 0)
    return Spending(trials, milliseconds, milliseconds * gpus, milliseconds * milli_cpus,
                    money_for(milliseconds, gpus, milli_cpus, gpu_hour, cpu_hour))
