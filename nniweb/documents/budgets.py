"""Budgets and rows of the ledger as answers have them."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from nniweb.experiments.budgets.concerned import Held
from nniweb.experiments.budgets.forecast import Forecast
from nniweb.experiments.budgets.spending import UNITS, Spending
from nniweb.experiments.budgets.standing import Standing, attempts_under_way, standing
from nniweb.experiments.models import LedgerEntry
from nniweb.experiments.models.limits import MICROS, MILLISECONDS_PER_HOUR
from nniweb.http.times import time_text


class AmountsSerializer(serializers.Serializer[Any]):
    """Of each unit."""

    gpu_hours = serializers.FloatField()
    cpu_hours = serializers.FloatField()
    trials = serializers.IntegerField()
    wall_hours = serializers.FloatField()
    money = serializers.FloatField()


class BudgetSerializer(serializers.Serializer[Any]):
    """A budget and how it stands. It is of one of user, group, token and experiment, or (all null) of each person; then
    the figures are those of the person who asks. Limits that are null do not exist.
    """

    id = serializers.IntegerField()
    user = serializers.CharField(allow_null=True)
    group = serializers.CharField(allow_null=True)
    token = serializers.IntegerField(allow_null=True, help_text="Id of the token.")
    token_name = serializers.CharField(allow_null=True)
    experiment = serializers.CharField(allow_null=True, help_text="Id of the experiment.")
    period = serializers.ChoiceField(choices=["month", "total"])
    is_own = serializers.BooleanField(help_text="It is from the experiment's config, and whoever may change the "
                                                "experiment may change it.")
    gpu_hours = serializers.FloatField(allow_null=True)
    cpu_hours = serializers.FloatField(allow_null=True)
    trials = serializers.IntegerField(allow_null=True)
    wall_hours = serializers.FloatField(allow_null=True)
    money = serializers.FloatField(allow_null=True)
    month = serializers.CharField(allow_null=True, help_text="The month that counts now (UTC); null of a total.")
    begins_anew = serializers.DateTimeField(allow_null=True, help_text="When the next month begins.")
    used = AmountsSerializer(help_text="By attempts that have ended: the sum of the ledger.")
    running = AmountsSerializer(help_text="By attempts under way until now.")
    left = serializers.DictField(child=serializers.FloatField(), help_text=(
        "Of each limit; below 0 where the last trials ran beyond it."))
    used_up = serializers.ListField(child=serializers.CharField(), help_text="Limits of which nothing is left.")
    exceeds = serializers.ListField(child=serializers.CharField(), required=False, help_text="In forecasts only.")


def budget_documents(helds: Iterable[Held], now: datetime) -> list[dict[str, Any]]:
    """One question for all, and two more for each."""
    some = list(helds)
    under_way = attempts_under_way(some)
    return [budget_document(standing(held, now, under_way), now) for held in some]


def budget_document(found: Standing, now: datetime) -> dict[str, Any]:
    """As ``BudgetSerializer`` describes it."""
    held, budget = found.held, found.held.budget
    return {
        "id": budget.pk, "user": budget.user.username if budget.user is not None else None,
        "group": budget.group.name if budget.group is not None else None, "token": budget.token_id,
        "token_name": str(budget.token) if budget.token is not None else None,
        "experiment": budget.experiment.public_id if budget.experiment is not None else None,
        "period": str(budget.period), "is_own": budget.is_own,
        **{unit: _number(found.limits[unit]) if unit in found.limits else None for unit in UNITS},
        "month": held.month(now) or None, "begins_anew": time_text(found.begins_anew),
        "used": amounts(found.used), "running": amounts(found.running),
        "left": {unit: _number(found.left(unit)) for unit in found.limits}, "used_up": list(found.used_up)}


def amounts(spending: Spending) -> dict[str, float]:
    """Of each unit, in hours, trials and money."""
    return {unit: _number(spending.amount(unit)) for unit in UNITS}


def _number(amount: Decimal) -> float:
    """A whole number where it is one, else to a millionth."""
    return int(amount) if amount == amount.to_integral_value() else round(float(amount), 6)


class ForecastSerializer(serializers.Serializer[Any]):
    """What an experiment is expected to take from its beginning to its end; null is not known."""

    trials = serializers.IntegerField(allow_null=True, help_text=(
        "Trials in all, by maxTrialNumber and maxExperimentDuration; null without a limit."))
    seconds_per_trial = serializers.FloatField(allow_null=True)
    basis = serializers.ChoiceField(choices=["trials", "earlier_experiments", "max_trial_duration"], allow_null=True,
                                    help_text="From what the time of a trial is known: the experiment's own trials, "
                                              "your earlier experiments with the same command, or maxTrialDuration "
                                              "(the most that a trial may take).")
    known_trials = serializers.IntegerField(help_text="From how many trials.")
    used = AmountsSerializer(help_text="By its attempts that have ended.")
    running = AmountsSerializer(help_text="By its attempts under way until now.")
    expected = AmountsSerializer(allow_null=True, help_text="From its beginning to its end.")
    budgets = serializers.ListField(child=BudgetSerializer(), help_text=(
        "The budgets towards which its trials count. Each has exceeds, the limits of which less is left than the rest "
        "of the experiment is expected to take."))


def forecast_document(found: Forecast, now: datetime) -> dict[str, Any]:
    """As ``ForecastSerializer`` describes it."""
    return {
        "trials": found.trials, "basis": found.basis, "known_trials": found.known_trials,
        "seconds_per_trial": None if found.seconds_per_trial is None else round(found.seconds_per_trial, 3),
        "used": amounts(found.used), "running": amounts(found.running),
        "expected": None if found.expected is None else amounts(found.expected),
        "budgets": [{**budget_document(one, now), "exceeds": list(found.exceeds(one))} for one in found.budgets]}


class LedgerEntrySerializer(serializers.Serializer[Any]):
    """An attempt of a trial that has ended. Names are those of then."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField(help_text="When the row was written.")
    month = serializers.CharField(help_text="Towards whose budgets it counts: the one in which the attempt was made.")
    experiment = serializers.CharField()
    experiment_name = serializers.CharField()
    trial = serializers.CharField()
    sequence_id = serializers.IntegerField()
    attempt = serializers.IntegerField()
    job_name = serializers.CharField()
    owner = serializers.CharField()
    group = serializers.CharField()
    token = serializers.CharField()
    cluster = serializers.CharField()
    machine = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField()
    seconds = serializers.FloatField()
    measured_by = serializers.ChoiceField(choices=LedgerEntry.Measure.values)
    gpus = serializers.IntegerField()
    cpus = serializers.FloatField()
    gpu_hours = serializers.FloatField()
    gpu_hour_price = serializers.FloatField()
    cpu_hour_price = serializers.FloatField()
    money = serializers.FloatField()


def entry_document(row: LedgerEntry) -> dict[str, Any]:
    """As ``LedgerEntrySerializer`` describes it, in the order of its fields."""
    return {
        "id": row.pk, "at": time_text(row.at), "month": row.month, "experiment": row.experiment,
        "experiment_name": row.experiment_name, "trial": row.trial, "sequence_id": row.sequence_id,
        "attempt": row.number, "job_name": row.job_name, "owner": row.owner, "group": row.group, "token": row.token,
        "cluster": row.cluster, "machine": row.machine, "started_at": time_text(row.began_at),
        "ended_at": time_text(row.ended_at), "seconds": row.milliseconds / 1000, "measured_by": row.measured_by,
        "gpus": row.gpus, "cpus": row.milli_cpus / 1000,
        "gpu_hours": round(row.gpus * row.milliseconds / MILLISECONDS_PER_HOUR, 6),
        "gpu_hour_price": row.gpu_hour_price / MICROS, "cpu_hour_price": row.cpu_hour_price / MICROS,
        "money": row.money / MICROS}
