"""TensorBoards that people have started, and the tickets with which their pages are shown."""

from django.conf import settings
from django.db import models

from nniweb.experiments.sql.public_id import new_public_id

from .experiment import Experiment


class TensorBoard(models.Model):
    """One that is wanted, of some trials of an experiment. It ends when the row is deleted.

    Its process is no part of the row: each host that is asked for it has one of its own.
    """

    public_id = models.CharField(max_length=12, unique=True, default=new_public_id, editable=False)
    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="tensorboards")
    #: Ids of the trials.
    trials = models.JSONField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField()
    #: When somebody looked at it last; up to a minute old.
    used_at = models.DateTimeField(db_index=True)
    #: What is wrong with it, or with some of its trials: sentences for people.
    message = models.TextField(blank=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.public_id


class TensorBoardTicket(models.Model):
    """The right of one session to see one TensorBoard, for pages that bring no cookies."""

    board = models.ForeignKey(TensorBoard, models.CASCADE, related_name="tickets")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    #: SHA-256 of the session's key.
    session_hash = models.CharField(max_length=64)
    #: SHA-256 of what stands in the address.
    secret_hash = models.CharField(max_length=64, unique=True)
