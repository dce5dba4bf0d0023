"""What people changed of an experiment after its launch. Append-only: an undo is a further change."""

from django.db import models

from .experiment import Experiment


class ExperimentChange(models.Model):
    """One change of limits, search space, tuner or words, with what was there before."""

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
