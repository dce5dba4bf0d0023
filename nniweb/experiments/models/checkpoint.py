"""Checkpoints of trials: what a trial saved to go on from, cut into chunks that one experiment keeps once."""

from django.db import models
from django.db.models import Q

from .experiment import Experiment
from .trial import Attempt, Trial


class Checkpoint(models.Model):
    """One checkpoint of an attempt. It counts since its keeper's journal entry is committed (``confirmed_at``).

    Its content lies in the file storage: a manifest and the chunks that the manifest names (``chunk_storage``).
    """

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="checkpoints", db_index=False)
    trial = models.ForeignKey(Trial, models.CASCADE, related_name="checkpoints")
    #: SHA-256 (hex) of its manifest: its id towards keepers.
    manifest = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    #: The trial's own number of its step, where it gave one.
    step = models.BigIntegerField(null=True)
    #: Bytes of its files, and how many files.
    size = models.BigIntegerField()
    file_count = models.PositiveIntegerField()
    #: When all rows of its chunks were written; None while they are not.
    stored_at = models.DateTimeField(null=True)
    #: The number of the checkpoint in its attempt, from 1; None until it counts.
    k = models.PositiveIntegerField(null=True)
    #: How many intermediate results of its attempt came before it, and the same in the joined curve of its trial.
    sequence = models.BigIntegerField(null=True)
    joined_sequence = models.BigIntegerField(null=True)
    #: Number of the journal entry, and when the checkpoint was complete by the corrected clock of its keeper.
    confirmed_n = models.BigIntegerField(null=True)
    confirmed_at = models.DateTimeField(null=True)
    #: When it was let go of. The worker then removes its content, and ``stored_at`` is None; the row stays as long as
    #: an attempt says that it went on from it.
    removed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "manifest"], name="one_checkpoint_per_manifest")]
        indexes = [
            # what the worker has to remove stays small however many there were
            models.Index(fields=["removed_at"], name="checkpoints_to_remove",
                         condition=Q(removed_at__isnull=False, stored_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"checkpoint {self.name} ({self.manifest[:12]})"


class CheckpointChunk(models.Model):
    """A chunk that an experiment has. Chunks are never shared between experiments: nobody learns what others keep."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="checkpoint_chunks", db_index=False)
    sha256 = models.CharField(max_length=64)
    size = models.PositiveIntegerField()
    #: When a keeper last sent it, or asked whether it is there: it is not removed for an hour from then on.
    wanted_at = models.DateTimeField()
    #: When it was found damaged or missing on the disk; it counts as missing until a keeper sends it again.
    lost_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "sha256"], name="one_chunk_per_hash")]


class CheckpointChunkUse(models.Model):
    """A chunk is part of a checkpoint, in one place or in several."""

    checkpoint = models.ForeignKey(Checkpoint, models.CASCADE, related_name="uses", db_index=False)
    chunk = models.ForeignKey(CheckpointChunk, models.CASCADE, related_name="uses")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["checkpoint", "chunk"], name="one_use_per_chunk")]
