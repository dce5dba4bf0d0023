"""What keepers report: metrics, output, readings."""

from django.db import models

from nniweb.experiments.sql.exact_text import ExactTextField
from trialkeeper import contract

from .trial import Attempt


class Metric(models.Model):
    """One metric entry of an attempt's journal. A repeated report changes nothing: (attempt, n) is unique."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="metrics", db_index=False)
    n = models.BigIntegerField()
    kind = models.CharField(max_length=20, choices=[(kind, kind) for kind in contract.METRIC_KINDS])
    #: JSON text of the parameter id as the trial gave it.
    parameter_id = models.TextField(default="null")
    #: As reported: charts take the last metric per sequence.
    sequence = models.BigIntegerField()
    value = ExactTextField()
    #: The number in it (that of "default" in an object), None where there is no finite one.
    number = models.FloatField(null=True)
    recorded_at = models.DateTimeField()
    received_at = models.DateTimeField()
    revision = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "n"], name="one_metric_per_journal_entry")]
        indexes = [models.Index(fields=["attempt", "revision"])]


class TrialOutput(models.Model):
    """A piece of a stream of output, at most 64 KiB; or a segment of several, which is a file of the storage."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="output", db_index=False)
    stream = models.CharField(max_length=6)
    offset = models.BigIntegerField()
    data = models.BinaryField()
    #: Bytes before ``offset`` that stayed on the trial machine.
    skipped = models.BigIntegerField(default=0)
    revision = models.BigIntegerField(default=0)
    #: Of segments: the file, which then has the data; where its last piece ends; the file's bytes, and their hash.
    storage_path = models.CharField(max_length=200, null=True, editable=False)  # noqa: DJ001  # a default costs a rewrite
    stored_end = models.BigIntegerField(null=True, editable=False)
    stored_size = models.BigIntegerField(null=True, editable=False)
    stored_sha256 = models.CharField(max_length=64, null=True, editable=False)  # noqa: DJ001

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "stream", "offset"], name="one_piece_per_offset"),
        ]


class ResourceReading(models.Model):
    """CPU, memory and GPUs of an attempt over time, thinned to at most 200 points."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="readings")
    at = models.DateTimeField()
    data = models.JSONField()

    class Meta:
        indexes = [models.Index(fields=["attempt", "at"])]


class TrialFile(models.Model):
    """A file the experiment asked to keep, sent by the keeper after the trial's end."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="files")
    name = models.TextField()
    size = models.BigIntegerField()
    #: Of the content, in hex; "" of files that were kept before hashes were.
    sha256 = models.CharField(max_length=64, blank=True, default="")
    storage_path = models.CharField(max_length=300)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "name"], name="one_file_per_name")]
