"""The audit log: who did what, when, from where. Rows are written once; nothing changes or removes them."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from nniweb.experiments.sql.append_only import AppendOnlyModel


class AuditEntry(AppendOnlyModel):
    """One thing that somebody did. It refers to nothing, so that it outlives what it is about."""

    at = models.DateTimeField(default=timezone.now, editable=False)
    #: Name of the person as it was then; "" where nobody was signed in.
    who = models.CharField(max_length=150, blank=True, editable=False)
    who_id = models.BigIntegerField(null=True, editable=False)
    #: How they were known: "page", "token laptop", "command ...".
    via = models.CharField(max_length=150, blank=True, editable=False)
    #: Primary key of the API token by which it was asked for: names of tokens may repeat. None where there was none.
    token_id = models.BigIntegerField(null=True, editable=False)
    address = models.CharField(max_length=45, blank=True, editable=False)
    action = models.CharField(max_length=40, editable=False)
    #: What it was done to: kind, id and the name it had then.
    kind = models.CharField(max_length=20, blank=True, editable=False)
    target = models.CharField(max_length=64, blank=True, editable=False)
    name = models.CharField(max_length=255, blank=True, editable=False)
    #: Never the value of a secret.
    details = models.JSONField(default=dict, editable=False)

    class Meta(AppendOnlyModel.Meta):
        indexes = [models.Index(fields=["action", "at"]), models.Index(fields=["who", "at"]),
                   models.Index(fields=["target", "at"]),
                   models.Index(fields=["token_id", "at"], name="audit_by_token",
                                condition=Q(token_id__isnull=False))]
        verbose_name_plural = "audit log"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.who or 'nobody'} {self.action} {self.name}".rstrip()
