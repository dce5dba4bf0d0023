"""The log of an experiment: what the worker, the platform's service and the tuner's process said about it."""

from django.db import models

from .experiment import Experiment


class LogSource(models.TextChoices):
    WORKER = "worker"
    PLATFORM = "platform"
    TUNER = "tuner"


class LogLine(models.Model):
    """One message; a traceback is part of its message. The oldest lines of a long log are removed."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="log_lines", db_index=False)
    #: From 1, without gaps: what is before the first line that is there was removed.
    number = models.PositiveIntegerField()
    at = models.DateTimeField()
    #: As in Python's ``logging``: 10, 20, 30, 40, 50.
    level = models.PositiveSmallIntegerField()
    source = models.CharField(max_length=8, choices=LogSource.choices)
    #: Public id of the trial it is about, "" for none.
    trial = models.CharField(max_length=12, blank=True)
    message = models.TextField()
    revision = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "number"], name="log_lines_are_numbered")]
        indexes = [models.Index(fields=["experiment", "revision"], name="log_lines_by_revision")]
