"""Numbers that trials report beside their result: the further members of ``{"default": 0.9, "latency": 12}``."""

from django.db import models

from .experiment import Experiment
from .trial import Trial


class MetricName(models.Model):
    """A metric that some trial of the experiment has reported; few, so that all of them are read at once."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="metric_names")
    name = models.CharField(max_length=100)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "name"], name="one_row_per_metric_name")]
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class MetricNumber(models.Model):
    """What a trial's last attempt reported of one metric, kept ready for tables and charts."""

    trial = models.ForeignKey(Trial, models.CASCADE, related_name="metric_numbers", db_index=False)
    metric = models.ForeignKey(MetricName, models.CASCADE, related_name="numbers", db_index=False)
    #: In the final result.
    final = models.FloatField(null=True)
    #: In the latest intermediate result that has one.
    latest = models.FloatField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trial", "metric"], name="one_number_per_trial_and_metric")]
        indexes = [models.Index(fields=["metric", "final"])]
