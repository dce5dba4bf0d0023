"""What the trials of an experiment that have ended for good add up to."""

from django.db import models

from .experiment import Experiment


class SettledTrials(models.Model):
    """Sums that pages need and that would be counted over all trials. The worker keeps them some time after ends, so
    that nothing of it is written while trials end; readers count what is not among them yet. See
    ``nniweb.experiments.results.settled_trials``.
    """

    experiment = models.OneToOneField(Experiment, models.CASCADE, related_name="settled_trials")
    #: The trials below this number are added up, but for those of ``open_trials`` (primary keys).
    until = models.BigIntegerField(default=0)
    open_trials = models.JSONField(default=list)
    #: Status -> trials.
    counts = models.JSONField(default=dict)
    #: [number, result] of those that are better than all before them; None: not kept.
    improvements = models.JSONField(null=True)
    #: How long their attempts ran together, when the first one began, and when the last one ended.
    seconds = models.FloatField(default=0.0)
    first_began = models.DateTimeField(null=True)
    last_ended = models.DateTimeField(null=True)
    #: Of the experiment, before they were read: a trial among them that changed since has a later one.
    revision = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = verbose_name_plural = "settled trials"

    def __str__(self) -> str:
        return f"{self.experiment_id} up to {self.until}"
