"""Signing in leaves rows in the audit log; from those of failures it is known when somebody has tried too often.

No counter of its own: the log is there, is shared by all web processes, and outlives a restart. A refused attempt
tries no password and writes no row, so that the log grows no faster than the limits allow.
"""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from nniweb.experiments import audit
from nniweb.experiments.models import AuditEntry, User
from nniweb.experiments.who_asks import address_of

SIGN_IN, FAILED, SIGN_OUT = "sign-in", "sign-in.failed", "sign-out"
#: Failures count so long.
PERIOD = timedelta(minutes=15)
#: Failures in that time after which no more attempt is taken: for one name from one address, from one address, for
#: one name from anywhere. The last is high: whoever fails on purpose in somebody's name keeps that person from their
#: password (a sign-in link always works).
MOST_OF_NAME_AND_ADDRESS, MOST_OF_ADDRESS, MOST_OF_NAME = 5, 30, 60


def wait_before(name: str, request: HttpRequest, now: datetime | None = None) -> timedelta | None:
    """How long this name must not be tried from this address; None where it may be tried now."""
    now = now or timezone.now()
    address, mark = address_of(request), _mark(name)
    failures = AuditEntry.objects.filter(action=FAILED, at__gt=now - PERIOD)
    waits = []
    for found, most in ((failures.filter(target=mark, address=address), MOST_OF_NAME_AND_ADDRESS),
                        (failures.filter(address=address), MOST_OF_ADDRESS),
                        (failures.filter(target=mark), MOST_OF_NAME)):
        times = list(found.order_by("-at").values_list("at", flat=True)[:most])
        if len(times) == most:  # until the oldest of these counts no more
            waits.append(times[-1] + PERIOD - now)
    return max(waits, default=None)


def _mark(name: str) -> str:
    """Stands for a name that was typed: it may have been a password, in the wrong field."""
    return salted_hmac("nniweb.sign-in", name.strip().casefold()).hexdigest()[:32]


@receiver(user_logged_in)
def _signed_in(user: Any, **_: Any) -> None:
    audit.record(SIGN_IN, user, user)


@receiver(user_logged_out)
def _signed_out(user: Any, **_: Any) -> None:
    if isinstance(user, User):
        audit.record(SIGN_OUT, user, user)


@receiver(user_login_failed)
def _failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    name = str(credentials.get("username") or "")
    known = User.objects.filter(username=User.normalize_username(name)).first() if name.isprintable() else None
    note_failure(name, request, known)


def note_refusal(request: HttpRequest, reason: str) -> None:
    """Put down that somebody came by another way than a password and was not let in; five times in the period from
    one address, so that nobody fills the log.
    """
    if wait_before("", request) is None:
        note_failure("", request, reason=reason)


def note_failure(name: str, request: HttpRequest | None, known: User | None = None, reason: str = "") -> None:
    """Put down that somebody could not be signed in. A name is written only where it is somebody's."""
    AuditEntry.objects.create(
        action=FAILED, kind="user" if known else "", target=_mark(name), name=known.username if known else "",
        address=address_of(request) if request is not None else "", via="page" if request is not None else "",
        details={"reason": reason} if reason else {})
