"""Clusters: a platform with its settings, shared by many experiments, and the machines it has."""


from django.contrib.auth.models import Group
from django.db import models

from nniweb.experiments.secrets.sealing import SealedField
from nniweb.experiments.sql.public_id import new_public_id


class Cluster(models.Model):
    """The unit of lease: one worker process at a time drives a cluster, through one service object."""

    class Health(models.TextChoices):
        UNKNOWN = "unknown", "not tried yet"
        GOOD = "good", "good"
        DEGRADED = "degraded", "degraded"
        AWAY = "away", "cannot be asked at the moment"
        BAD = "bad", "needs a person"

    public_id = models.CharField(max_length=12, unique=True, default=new_public_id, editable=False)
    name = models.CharField(max_length=100, unique=True)
    platform = models.CharField(max_length=40)
    settings = models.JSONField(default=dict, blank=True)
    owner = models.ForeignKey("experiments.User", models.SET_NULL, null=True, blank=True, related_name="+")
    group = models.ForeignKey(Group, models.SET_NULL, null=True, blank=True, related_name="+")
    #: Made from one experiment file's own platform section, for its owner alone.
    is_private = models.BooleanField(default=False)
    #: Only a worker on this host may drive it ("" = any).
    pinned_host = models.CharField(max_length=255, blank=True)
    enabled = models.BooleanField(default=True)
    #: None: as many as its experiments' own limits allow.
    max_trials = models.PositiveIntegerField(
        "trials at a time", null=True, blank=True,
        help_text="Of all experiments together, which then take turns. Empty: no limit of this server's.")
    created_at = models.DateTimeField(auto_now_add=True)
    #: Grows with each change of settings or metadata, so that the host notices.
    settings_revision = models.PositiveIntegerField(default=0, editable=False)

    lease_holder = models.CharField(max_length=40, blank=True, editable=False)
    lease_epoch = models.BigIntegerField(default=0, editable=False)
    lease_expires_at = models.DateTimeField(null=True, editable=False)

    health = models.CharField(max_length=10, choices=Health.choices, default=Health.UNKNOWN, editable=False)
    message = models.TextField(blank=True, editable=False)
    #: Its code (``trainingservice.reasons``), "" where there is no message, and what the code needs besides.
    reason = models.CharField(max_length=32, blank=True, default="", editable=False)
    reason_arguments = models.JSONField(default=dict, editable=False)
    #: What the last full rehearsal found: a list of {"check", "ok", "message", "machine", "temporary"}.
    rehearsal = models.JSONField(null=True, editable=False)
    rehearsed_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.name


class ClusterMetadata(models.Model):
    """One key of what the platform's ``set_cluster_metadata`` receives. A secret is only ever kept sealed."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="metadata")
    key = models.CharField(max_length=100)
    value = models.TextField(blank=True)
    sealed_value = SealedField(null=True, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "key"], name="one_value_per_metadata_key")]
        verbose_name_plural = "cluster metadata"

    @property
    def is_secret(self) -> bool:
        return self.sealed_value is not None


class Machine(models.Model):
    """A machine as a cluster's service last saw it."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="machines")
    name = models.CharField(max_length=255)
    #: The same machine has the same identity in every cluster; GPUs are booked by it.
    identity = models.CharField(max_length=100, blank=True, db_index=True)
    gpu_summary = models.JSONField(default=list)
    healthy = models.BooleanField(default=True)
    message = models.TextField(blank=True)
    #: As of a cluster.
    reason = models.CharField(max_length=32, blank=True, default="", editable=False)
    reason_arguments = models.JSONField(default=dict, editable=False)
    agent_state = models.CharField(max_length=100, blank=True)
    way_home = models.CharField(max_length=100, blank=True)
    #: A MachineLoad as JSON; NULL where it is not known. ``machine_loads`` says whether it still holds.
    load = models.JSONField(null=True, editable=False)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="one_row_per_machine_of_a_cluster")]

    def __str__(self) -> str:
        return self.name
