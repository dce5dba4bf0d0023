"""The audit log: who did what, when, from where. Rows are written once; nothing changes or removes them."""

from typing import Any, NoReturn

from django.db import models
from django.db.models import Q
from django.utils import timezone


class AppendOnly(Exception):
    """Rows of the audit log stay as they were written."""

    def __init__(self) -> None:
        super().__init__("The audit log is append-only: its rows are neither changed nor removed.")


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Reads and adds, nothing else."""

    def update(self, **fields: Any) -> NoReturn:
        raise AppendOnly

    def delete(self) -> NoReturn:
        raise AppendOnly

    def bulk_update(self, *rows: Any, **how: Any) -> NoReturn:
        raise AppendOnly

    def _raw_delete(self, using: str | None) -> NoReturn:
        raise AppendOnly

    def bulk_create(self, *rows: Any, **how: Any) -> "list[AuditEntry]":
        if how.get("update_conflicts"):
            raise AppendOnly
        return super().bulk_create(*rows, **how)


class AuditEntry(models.Model):
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

    objects = AuditQuerySet.as_manager()

    class Meta:
        base_manager_name = "objects"
        indexes = [models.Index(fields=["action", "at"]), models.Index(fields=["who", "at"]),
                   models.Index(fields=["target", "at"]),
                   models.Index(fields=["token_id", "at"], name="audit_by_token",
                                condition=Q(token_id__isnull=False))]
        verbose_name_plural = "audit log"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.who or 'nobody'} {self.action} {self.name}".rstrip()

    def save(self, *args: Any, **how: Any) -> None:
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **{**how, "force_insert": True})

    def delete(self, *args: Any, **how: Any) -> NoReturn:
        raise AppendOnly
