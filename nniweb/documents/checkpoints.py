"""Checkpoints of trials as documents of REST and pages."""

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet
from rest_framework import serializers

from nniweb.experiments.models import Attempt, Checkpoint


class CheckpointSerializer(serializers.ModelSerializer[Checkpoint]):
    """A checkpoint that the server keeps, or from which an attempt went on."""

    attempt = serializers.IntegerField(source="attempt.number", help_text="The attempt that saved it.")
    step = serializers.IntegerField(allow_null=True, help_text="The trial's own number, if it gave one.")
    size = serializers.IntegerField(help_text="Bytes of its files.")
    files = serializers.IntegerField(source="file_count")
    sha256 = serializers.CharField(source="manifest", help_text="Hash of its manifest: equal content has an equal one.")
    sequence = serializers.IntegerField(source="joined_sequence", help_text=(
        "Intermediate results before it, in the trial's joined curve."))
    resumed_attempts = serializers.SerializerMethodField(help_text="The attempts of its trial that went on from it.")
    resumed_trials = serializers.SerializerMethodField(help_text="The later trials that went on from it, by id.")
    removed_at = serializers.DateTimeField(allow_null=True, help_text="Since then it cannot be downloaded.")

    class Meta:
        model = Checkpoint
        fields = ["id", "attempt", "name", "step", "size", "files", "sha256", "sequence", "created_at", "confirmed_at",
                  "removed_at", "resumed_attempts", "resumed_trials"]

    def get_resumed_attempts(self, checkpoint: Checkpoint) -> list[int]:
        return [attempt.number for attempt in checkpoint.resumed.all() if attempt.trial_id == checkpoint.trial_id]

    def get_resumed_trials(self, checkpoint: Checkpoint) -> list[str]:
        return list(dict.fromkeys(attempt.trial.public_id for attempt in checkpoint.resumed.all()
                                  if attempt.trial_id != checkpoint.trial_id))


def checkpoints_of_trial(trial: int) -> QuerySet[Checkpoint]:
    """Those that count, the newest first; of removed ones those from which an attempt went on."""
    kept = Checkpoint.objects.filter(trial=trial, confirmed_at__isnull=False)
    went_on = Exists(Attempt.objects.filter(resumed_from=OuterRef("pk")))
    return kept.filter(Q(removed_at=None) | Q(went_on)).select_related(
        "attempt").prefetch_related(Prefetch("resumed", Attempt.objects.select_related("trial").only(
            "number", "resumed_from_id", "trial__public_id", "trial__sequence_id").order_by(
            "trial__sequence_id", "number"))).order_by("-attempt__number", "-confirmed_n")
