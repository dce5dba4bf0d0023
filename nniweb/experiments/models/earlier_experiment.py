"""An earlier experiment that another one started from, with a copy of the results that were taken from it."""

from django.db import models

from .experiment import Experiment


class EarlierExperiment(models.Model):
    """Written at the launch; the worker keeps ``compared``, ``correlation`` and ``weight`` up to date. What becomes of
    the earlier experiment afterwards changes nothing.
    """

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="started_from", db_index=False)
    #: Its place in the config, from 0.
    place = models.PositiveSmallIntegerField()
    #: The public id of the earlier one, which may have been deleted since.
    source_id = models.CharField(max_length=12)
    #: How many results it had then, and how many of them were taken.
    available = models.PositiveIntegerField()
    taken = models.PositiveIntegerField()
    #: By parameter, of the results that were looked at: {code of ``mapped_parameters``: how many of them}.
    misfits = models.JSONField(default=dict)
    #: [[parameters in the search space of the launch, value], ...], the best first.
    results = models.JSONField(default=list)
    #: Results of this experiment that it was compared with, Kendall's rank correlation with what it predicts for them
    #: (None: too few), and from 0 to 1 how much it counts.
    compared = models.PositiveIntegerField(default=0)
    correlation = models.FloatField(null=True)
    weight = models.FloatField(default=0.0)

    class Meta:
        ordering = ["place"]
        constraints = [models.UniqueConstraint(fields=["experiment", "place"], name="one_earlier_experiment_per_place")]

    def __str__(self) -> str:
        return f"results of {self.source_id}"
