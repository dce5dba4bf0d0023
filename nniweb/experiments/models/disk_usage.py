"""How much room things take, as the worker measured it last."""

from django.db import models

from .experiment import Experiment


class DiskUsage(models.Model):
    """What one experiment has. Bytes of rows are estimated: databases do not tell them for a part of a table."""

    experiment = models.OneToOneField(Experiment, models.CASCADE, related_name="disk_usage")
    measured_at = models.DateTimeField()
    trials = models.PositiveIntegerField(default=0)
    #: Of all tables.
    rows = models.BigIntegerField(default=0)
    #: In the database: all but output; output.
    rows_bytes = models.BigIntegerField(default=0)
    output_bytes = models.BigIntegerField(default=0)
    #: Of those: in the storage of files.
    output_stored_bytes = models.BigIntegerField(default=0)
    #: In the data folder. Code is counted at each experiment that has it, though it is kept once.
    files_bytes = models.BigIntegerField(default=0)
    checkpoints_bytes = models.BigIntegerField(default=0)
    code_bytes = models.BigIntegerField(default=0)
    #: All bytes above.
    total_bytes = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = verbose_name_plural = "disk usage"


class FolderUsage(models.Model):
    """What a part of the data folder of a host takes on its disk."""

    host = models.CharField(max_length=255)
    #: A key of ``disk_usage.PARTS``.
    part = models.CharField(max_length=20)
    bytes = models.BigIntegerField(default=0)
    files = models.BigIntegerField(default=0)
    measured_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "part"], name="one_row_per_part_of_a_data_folder")]
