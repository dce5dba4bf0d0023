"""Who is told of what, and how; and each thing that is to be told: rows are the queue."""

import uuid

from django.contrib.auth.models import Group
from django.db import models

from nniweb.experiments.secrets.sealing import SealedField
from nniweb.experiments.sql.public_id import new_public_id

from .experiment import Experiment


class Channel(models.TextChoices):
    EMAIL = "email", "e-mail"
    WEBHOOK = "webhook", "webhook"


class Occasion(models.TextChoices):
    """What is told of."""

    DONE = "experiment.done", "an experiment is done"
    FAILED = "experiment.failed", "an experiment failed"
    NEW_BEST = "experiment.new_best", "a new best result"
    TEST = "test", "a test"


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "waits"
    DELIVERED = "delivered", "delivered"
    GIVEN_UP = "given_up", "given up"
    WITHDRAWN = "withdrawn", "withdrawn"


class NotificationRule(models.Model):
    """One person's wish to be told, by one channel: of one experiment, of a group's, or of their own experiments."""

    public_id = models.CharField(max_length=12, unique=True, default=new_public_id, editable=False)
    owner = models.ForeignKey("experiments.User", models.CASCADE, related_name="notification_rules")
    name = models.CharField(max_length=100, blank=True)
    channel = models.CharField(max_length=10, choices=Channel.choices)
    #: At most one of the two; neither: the owner's own experiments.
    experiment = models.ForeignKey(Experiment, models.CASCADE, null=True, related_name="+")
    group = models.ForeignKey(Group, models.CASCADE, null=True, related_name="+")
    on_done = models.BooleanField(default=True)
    on_failed = models.BooleanField(default=True)
    on_best = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)
    #: Of a webhook: many addresses are keys themselves, so only scheme and host are readable.
    sealed_url = SealedField(null=True, editable=False)
    shown_url = models.CharField(max_length=300, blank=True, editable=False)
    sealed_secret = SealedField(null=True, editable=False)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name or f"{self.get_channel_display()} {self.shown_url}".strip()

    def __repr__(self) -> str:
        return f"<NotificationRule {self.public_id}>"


class NotificationDelivery(models.Model):
    """One message to one rule's receiver. Written with what it tells of, in one transaction; sent by a worker."""

    #: The receiver is told it, too: a message that comes twice has it twice.
    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    rule = models.ForeignKey(NotificationRule, models.CASCADE, related_name="deliveries")
    experiment = models.ForeignKey(Experiment, models.SET_NULL, null=True, related_name="+")
    occasion = models.CharField(max_length=30, choices=Occasion.choices)
    #: The JSON text that is sent, and signed, as it stands.
    body = models.TextField()
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    #: Why it was given up or withdrawn.
    message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    #: When it was to be sent first: new best results keep a distance from each other.
    planned_at = models.DateTimeField()
    #: Not before.
    due_at = models.DateTimeField()
    #: The worker that is sending it, and until when the others leave it alone.
    claimed_by = models.CharField(max_length=40, blank=True)
    claimed_until = models.DateTimeField(null=True)
    try_count = models.PositiveIntegerField(default=0)
    #: The last tries: {"at", "seconds", "status" (of HTTP, or null), "answer"}.
    tries = models.JSONField(default=list)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["state", "due_at"], name="deliveries_waiting"),
            models.Index(fields=["ended_at"], name="deliveries_ended"),
        ]

    def __str__(self) -> str:
        return f"{self.occasion} ({self.public_id})"
