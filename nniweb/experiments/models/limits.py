"""How much of the installation may be used: quotas of what is used at a time, budgets of what is used in a month or in
total; prices of hours; and the ledger of what attempts took.
"""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from nniweb.experiments.sql.append_only import AppendOnlyModel

from .cluster import Cluster

#: Amounts of the ledger are whole numbers, so that sums of them are exact: millionths of money, milliseconds.
MICROS = 1_000_000
MILLISECONDS_PER_HOUR = 3_600_000
#: The most of a limit of a budget: trials, and hours or money.
LARGEST_COUNT, LARGEST_AMOUNT = 2**31 - 1, 1_000_000_000


class Quota(models.Model):
    """Limits for one person, for what belongs to one group together, or (neither) for each person without an own one.

    None: no limit. 0: nothing.
    """

    user = models.OneToOneField("experiments.User", models.CASCADE, null=True, blank=True, related_name="quota",
                                help_text="Leave user and group empty for everybody who has no quota of their own.")
    group = models.OneToOneField(Group, models.CASCADE, null=True, blank=True, related_name="quota")
    max_trials = models.PositiveIntegerField(
        "trials at a time", null=True, blank=True, help_text="Over all experiments. Empty: no limit.")
    max_gpus = models.PositiveIntegerField(
        "GPUs at a time", null=True, blank=True, help_text="That its trials ask for. Empty: no limit.")
    max_experiments = models.PositiveIntegerField(
        "experiments at a time", null=True, blank=True, help_text="That have not ended. Empty: no limit.")
    max_checkpoint_gb = models.PositiveIntegerField(
        "GB of checkpoints", null=True, blank=True, help_text="That the server keeps of their trials. Empty: no limit.")

    max_priority = models.SmallIntegerField(
        "highest priority", null=True, blank=True, validators=[MinValueValidator(-100), MaxValueValidator(100)],
        help_text="Of their experiments, from -100 to 100. Empty: 0.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(user=None) | Q(group=None), name="quota_of_a_user_or_a_group",
                                   violation_error_message="A quota is of a user or of a group, not of both."),
            models.UniqueConstraint(models.Value(1), condition=Q(user=None, group=None), name="one_quota_for_the_rest",
                                    violation_error_message="There is a quota for everybody else already."),
        ]

    def __str__(self) -> str:
        return f"quota of {self.of_whom}"

    @property
    def of_whom(self) -> str:
        """Whose it is, in words."""
        if self.user is not None:
            return self.user.username
        return f"the group {self.group.name}" if self.group is not None else "everybody else"


def month_of(at: datetime) -> str:
    """The month in UTC: 2026-11."""
    return f"{at.astimezone(UTC):%Y-%m}"


def next_month(at: datetime) -> datetime:
    """When the next month begins."""
    at = at.astimezone(UTC)
    return datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)


def _limit(name: str, text: str) -> Any:
    return models.DecimalField(name, max_digits=16, decimal_places=4, null=True, blank=True,
                               validators=[MinValueValidator(0)], help_text=f"{text} Empty: no limit.")


class Budget(models.Model):
    """What one person, one group, one token or one experiment may use, or (none of them) each person without a budget
    of their own for the period. None: no limit. 0: nothing.
    """

    class Period(models.TextChoices):
        MONTH = "month", "each month"
        TOTAL = "total", "in total"

    user = models.ForeignKey("experiments.User", models.CASCADE, null=True, blank=True, related_name="budgets",
                             help_text="Leave user, group, token and experiment empty for everybody who has no budget "
                                       "of their own.")
    group = models.ForeignKey(Group, models.CASCADE, null=True, blank=True, related_name="budgets")
    token = models.ForeignKey("experiments.ApiToken", models.CASCADE, null=True, blank=True, related_name="budgets")
    experiment = models.ForeignKey("experiments.Experiment", models.CASCADE, null=True, blank=True,
                                   related_name="budgets")
    period = models.CharField(max_length=5, choices=Period.choices, default=Period.MONTH,
                              help_text="Months begin at midnight UTC.")
    #: Whether it is from the experiment's config file, or was set by who may change the experiment.
    is_own = models.BooleanField(default=False, editable=False)
    gpu_hours = _limit("GPU-hours", "Hours of trials, times their GPUs.")
    cpu_hours = _limit("CPU-hours", "Hours of trials, times their CPUs.")
    trials = models.PositiveIntegerField(null=True, blank=True, help_text="Trials that begin; retries are no trials "
                                                                          "more. Empty: no limit.")
    wall_hours = _limit("hours of trials", "The time that trials run, added up.")
    money = _limit("money", "By the prices of clusters and machines.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user=None, group=None, token=None) | Q(user=None, group=None, experiment=None)
                | Q(user=None, token=None, experiment=None) | Q(group=None, token=None, experiment=None),
                name="budget_of_one_subject",
                violation_error_message="A budget is of a user, a group, a token or an experiment, not of several."),
            *(models.UniqueConstraint(
                fields=fields, condition=Q(**{f"{fields[0]}__isnull": False}), name=f"one_budget_of_{fields[0]}",
                violation_error_message=f"There is a budget of this {fields[0]} for this period already.")
              for fields in (["user", "period"], ["group", "period"], ["token", "period"],
                             ["experiment", "period", "is_own"])),
            models.UniqueConstraint(
                fields=["period"], condition=Q(user=None, group=None, token=None, experiment=None),
                name="one_budget_for_the_rest",
                violation_error_message="There is a budget for everybody else for this period already."),
        ]

    def __str__(self) -> str:
        return f"budget of {self.of_whom} {self.get_period_display()}"

    def clean(self) -> None:
        """Raises ValidationError where it has no limit, or one that is too large, at its field."""
        limits = {"gpu_hours": self.gpu_hours, "cpu_hours": self.cpu_hours, "trials": self.trials,
                  "wall_hours": self.wall_hours, "money": self.money}
        *names, last = limits
        if all(limit is None for limit in limits.values()):
            raise ValidationError(f"A budget needs a limit. Give at least one of {', '.join(names)} and {last}.")
        largest = {name: LARGEST_COUNT if name == "trials" else LARGEST_AMOUNT for name in limits}
        if too_large := {name: f"Ensure this value is less than or equal to {largest[name]}."
                         for name, limit in limits.items() if limit is not None and limit > largest[name]}:
            raise ValidationError(too_large)

    @property
    def of_whom(self) -> str:
        """Whose it is, in words."""
        if self.user is not None:
            return self.user.username
        if self.group is not None:
            return f"the group {self.group.name}"
        if self.token is not None:
            return f"the token {self.token}"
        return f"the experiment {self.experiment}" if self.experiment is not None else "everybody else"


class BudgetUse(models.Model):
    """A sum of the ledger that is kept, so that it need not be made anew: what had been used of a budget up to a row.
    Rows may be removed at any time.
    """

    budget = models.ForeignKey(Budget, models.CASCADE, related_name="uses", db_index=False)
    #: Primary key of the person, of a budget that each person has; else 0.
    person = models.BigIntegerField(default=0)
    #: "" of a budget in total.
    month = models.CharField(max_length=7, blank=True)
    #: Primary key of the last row of the ledger that is in it.
    counted_to = models.BigIntegerField(default=0)
    trials = models.BigIntegerField(default=0)
    milliseconds = models.BigIntegerField(default=0)
    gpu_milliseconds = models.BigIntegerField(default=0)
    #: Thousandths of CPUs, times milliseconds.
    milli_cpu_milliseconds = models.BigIntegerField(default=0)
    money = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["budget", "person", "month"], name="one_use_of_a_budget")]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.month}".rstrip()


class Price(models.Model):
    """What an hour costs on a cluster, or on one machine of it."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="prices")
    #: "" of all machines without a price of their own.
    machine = models.CharField(max_length=255, blank=True, help_text="Name of the machine. Empty: all that have no "
                                                                     "price of their own.")
    gpu_hour = models.DecimalField("price of a GPU-hour", max_digits=12, decimal_places=6, default=0,
                                   validators=[MinValueValidator(0)])
    cpu_hour = models.DecimalField("price of a CPU-hour", max_digits=12, decimal_places=6, default=0,
                                   validators=[MinValueValidator(0)])

    class Meta:
        constraints = [models.UniqueConstraint(
            fields=["cluster", "machine"], name="one_price_for_a_machine",
            violation_error_message="There is a price for this machine already.")]

    def __str__(self) -> str:
        return f"{self.cluster} {self.machine}".rstrip()


class LedgerEntry(AppendOnlyModel):
    """An ended attempt. It holds names and keys as they were then, and refers to nothing: it outlives what it is about.
    """

    class Measure(models.TextChoices):
        """Where ``milliseconds`` is from."""

        #: The keeper's monotonic clock (of a keeper that was killed: the trial machine's clock, up to the last sign).
        KEEPER = "keeper", "the keeper"
        #: No keeper told it: the platform's times, or those that the server saw, at most since it made the attempt.
        SERVER = "server", "the server"
        #: Its command never began.
        NONE = "none", "it never began"

    #: When the row was written, by the server's clock.
    at = models.DateTimeField(editable=False)
    #: Name of the attempt: an end that is written again finds it.
    job_name = models.CharField(max_length=20, unique=True, editable=False)
    number = models.PositiveIntegerField(editable=False)
    trial = models.CharField(max_length=12, editable=False)
    sequence_id = models.PositiveIntegerField(editable=False)
    experiment_id = models.BigIntegerField(editable=False)
    #: Its public id.
    experiment = models.CharField(max_length=12, editable=False)
    experiment_name = models.CharField(max_length=255, editable=False)
    owner_id = models.BigIntegerField(null=True, editable=False)
    owner = models.CharField(max_length=150, blank=True, editable=False)
    group_id = models.BigIntegerField(null=True, editable=False)
    group = models.CharField(max_length=150, blank=True, editable=False)
    token_id = models.BigIntegerField(null=True, editable=False)
    token = models.CharField(max_length=100, blank=True, editable=False)
    cluster_id = models.BigIntegerField(editable=False)
    cluster = models.CharField(max_length=100, editable=False)
    machine = models.CharField(max_length=255, blank=True, editable=False)
    #: The month (UTC, such as 2026-11) in which the server made the attempt: to its budgets it counts.
    month = models.CharField(max_length=7, editable=False)
    began_at = models.DateTimeField(null=True, editable=False)
    ended_at = models.DateTimeField(editable=False)
    #: How long the trial's command ran.
    milliseconds = models.BigIntegerField(editable=False)
    measured_by = models.CharField(max_length=6, choices=Measure.choices, editable=False)
    #: What the trial asked for on all its nodes; CPUs in thousandths.
    gpus = models.PositiveIntegerField(editable=False)
    milli_cpus = models.PositiveIntegerField(editable=False)
    #: Prices of an hour as they were, and what it cost, in millionths.
    gpu_hour_price = models.BigIntegerField(editable=False)
    cpu_hour_price = models.BigIntegerField(editable=False)
    money = models.BigIntegerField(editable=False)

    class Meta(AppendOnlyModel.Meta):
        verbose_name_plural = "ledger"
        indexes = [
            models.Index(fields=["experiment_id", "id"], name="ledger_of_experiments"),
            models.Index(fields=["owner_id", "id"], name="ledger_of_people", condition=Q(owner_id__isnull=False)),
            models.Index(fields=["group_id", "id"], name="ledger_of_groups", condition=Q(group_id__isnull=False)),
            models.Index(fields=["token_id", "id"], name="ledger_of_tokens", condition=Q(token_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.job_name
