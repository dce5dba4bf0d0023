"""A proposal that is run as several trials, its replicates; only of experiments with ``replicates``."""

from django.db import models
from django.db.models import F, Q

from .experiment import Experiment


class ProposalState(models.TextChoices):
    #: Replicates run, or are still to be started.
    OPEN = "open"
    #: All replicates that there may be have ended.
    COMPLETE = "complete"
    #: Ended after fewer: it cannot be better than the best one any more, or gave no value.
    DROPPED = "dropped"


class Proposal(models.Model):
    """Parameters and what became of the trials that were run with them. Written by ``experiments.replicates`` alone."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="proposals", db_index=False)
    #: The tuner's number of it, as of its first trial; None of parameters that a person chose.
    number = models.PositiveIntegerField(null=True)
    #: The number of its first trial in the experiment, by which people know it.
    first_sequence_id = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=ProposalState.choices, default=ProposalState.OPEN)
    #: Replicates that were begun, and that are to be run: the rest waits for room.
    begun = models.PositiveIntegerField(default=1)
    wanted = models.PositiveIntegerField(default=1)
    #: Replicates whose values the mean is of, and those that failed.
    value_count = models.PositiveIntegerField(default=0)
    failed_count = models.PositiveIntegerField(default=0)
    #: None where too few have a value.
    mean = models.FloatField(null=True)
    #: Of the mean; None with fewer than two values.
    standard_error = models.FloatField(null=True)
    #: Whether the tuner was told its end, and the value that it was told then, if any.
    is_told = models.BooleanField(default=False)
    told_value = models.FloatField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["experiment", "first_sequence_id"], name="one_proposal_per_first_trial")]
        indexes = [
            models.Index(fields=["experiment", "mean"], name="proposals_by_mean", condition=Q(state="complete")),
            models.Index(fields=["experiment"], name="proposals_with_more_to_run", condition=Q(begun__lt=F("wanted")))]

    def __str__(self) -> str:
        return f"proposal of trial {self.first_sequence_id}"
