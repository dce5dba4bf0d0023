"""How much of the installation people and groups may use at a time."""

from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q


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
