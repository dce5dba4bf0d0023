"""Writes the audit log: one row for each thing that a person does, in the transaction of the thing itself."""

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model

from nniweb.experiments.access.request_actor import asking
from nniweb.experiments.models import ApiToken, AuditEntry, Cluster, Experiment, Trial, User
from nniweb.experiments.sql.exact_text import printable

#: Longer texts among the details are cut.
LONGEST_DETAIL = 1000


def record(action: str, target: Model | None = None, actor: User | None = None, **details: Any) -> None:
    """Put down that somebody did something. Not written where nobody asked: what the worker does by itself.

    ``actor``: who, where it is not the person of the present request or command. ``details``: what JSON can hold;
    never the value of a secret.
    """
    now = asking()
    person = (now.person if now is not None else None) or actor
    if person is None and now is None:
        return
    kind, public_id, name = _described(target)
    AuditEntry.objects.create(
        who=person.username if person is not None else "", who_id=person.pk if person is not None else None,
        via=now.via[:150] if now is not None else "",
        token_id=now.token.pk if now is not None and now.token is not None else None,
        address=now.address if now is not None else "", action=action,
        kind=kind, target=public_id, name=printable(name, 255),
        details={key: _short(value) for key, value in details.items()})


def _described(target: Model | None) -> tuple[str, str, str]:
    """Kind, id as REST has it, and name."""
    if target is None:
        return "", "", ""
    if isinstance(target, Experiment | Cluster):
        return target._meta.model_name or "", target.public_id, target.name
    if isinstance(target, Trial):
        return "trial", target.public_id, f"trial {target.sequence_id}"
    if isinstance(target, ApiToken):
        return "token", str(target.pk), str(target)
    if isinstance(target, User | Group):
        return target._meta.model_name or "", str(target.pk), str(target)
    return target._meta.model_name or "", str(target.pk), str(target)


def _short(value: Any) -> Any:
    return printable(value, LONGEST_DETAIL) if isinstance(value, str) else value
