"""What people change of an experiment after its launch, and write about its trials."""

from django.conf import settings
from django.db import models

from .experiment import Experiment
from .trial import Trial


class ExperimentChange(models.Model):
    """One change of limits, search space, tuner, clusters or words, with what was there before.

    Append-only: an undo is a further change.
    """

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="changes")
    #: From 1.
    number = models.PositiveIntegerField()
    at = models.DateTimeField()
    actor = models.ForeignKey("experiments.User", models.SET_NULL, null=True, related_name="+")
    #: How it was asked for, as the audit log has it: "page", "token laptop", "command ...".
    via = models.CharField(max_length=150, blank=True)
    #: Field of the experiment -> {"before", "after"}.
    fields = models.JSONField()
    #: Number of the change that this one takes back.
    undoes = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "number"], name="changes_are_numbered")]
        ordering = ["number"]

    def __str__(self) -> str:
        return f"change {self.number}"


class TrialNote(models.Model):
    """Markdown. A row of its own: few of many trials have one, and lists of trials do not read it."""

    trial = models.OneToOneField(Trial, models.CASCADE, primary_key=True, related_name="note")
    text = models.TextField()
    changed_at = models.DateTimeField()
    #: None: by a command, or the account was deleted.
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")

    def __str__(self) -> str:
        return f"note on {self.trial_id}"
