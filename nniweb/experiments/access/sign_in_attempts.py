"""Guessing passwords is slow: each try is counted before the password is looked at, and after too many failures none
is looked at for a while.

All checks of a password go through ``attempt``: those of ``User.check_password``, which every form of Django's uses,
and those of ``CountedPasswords``, which knows the names that nobody has. What is refused writes no row, neither here
nor in the audit log, so that neither grows faster than the limits allow.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from nniweb.database.one_after_another import one_after_another
from nniweb.experiments.access import audit
from nniweb.experiments.access.request_actor import asking
from nniweb.experiments.models import AuditEntry, SignInAttempt, User
from nniweb.process.counted_address import counted_as

SIGN_IN, FAILED, SIGN_OUT = "sign-in", "sign-in.failed", "sign-out"
#: Failures count so long.
PERIOD = timedelta(minutes=15)
#: What is told to whoever comes while the limit is taken up by passwords that are just being looked at.
SHORTLY = timedelta(seconds=10)
#: Failures in that time after which no more attempt is taken: for one name from one address, from one address, for
#: one name from anywhere; of IPv6 a network is one address. The last is high: whoever fails on purpose in somebody's
#: name keeps that person from their password (a sign-in link always works).
MOST_OF_NAME_AND_ADDRESS, MOST_OF_ADDRESS, MOST_OF_NAME = 5, 30, 60
#: PostgreSQL's advisory locks are numbers; this one is that of counting attempts.
_LOCK = 4_711_002_029
#: A longer name is nobody's.
_LONGEST_NAME = 300

#: Whether what runs now is counted already.
_is_counted: ContextVar[bool] = ContextVar("nniweb_password_is_counted", default=False)


class TooManyAttempts(Exception):
    """The password was not looked at; ``wait`` says how long none will be, from this address or for this name."""

    def __init__(self, wait: timedelta) -> None:
        super().__init__("Too many attempts have failed.")
        self.wait = wait


@dataclass
class Attempt:
    """Whoever makes it says whether it succeeded; otherwise it has failed, also where an exception ends it."""

    succeeded: bool = False


@contextlib.contextmanager
def attempt(name: str, reason: str = "") -> Iterator[Attempt]:
    """Count what is done inside as one attempt of this name, from the address of the present request. Raises
    TooManyAttempts before anything of it is done. An attempt within an attempt is the same one.

    However many come at once, on any number of web processes, no more are let through than the limits say.
    """
    this = Attempt()
    if _is_counted.get():
        yield this
        return
    row = _begun(name)
    reset = _is_counted.set(True)
    try:
        yield this
    finally:
        _is_counted.reset(reset)
        if this.succeeded:
            SignInAttempt.objects.filter(pk=row.pk).delete()
        else:
            _note_failure(row, name, reason)


def note_refusal(reason: str) -> None:
    """Put down that somebody came by another way than a password and was not let in; five times in the period from
    one address, so that nobody fills the log.
    """
    with contextlib.suppress(TooManyAttempts), attempt("", reason):
        pass


class CountedPasswords(ModelBackend):
    """Django's backend, counted. Where it says no nobody else is asked: the backend of Django itself is in the settings
    for sessions, which name the backend that began them.
    """

    def authenticate(  # type: ignore[override]  # the supertypes' own signatures differ
            self, request: HttpRequest | None, username: str | None = None, password: str | None = None,
            **credentials: Any) -> AbstractBaseUser | None:
        """None where it is not asked with a name and a password. Raises PermissionDenied, and TooManyAttempts."""
        if username is None or password is None:
            return None
        with attempt(username) as this:
            user = super().authenticate(request, username, password, **credentials)
            this.succeeded = user is not None
        if user is None:
            raise PermissionDenied
        return user

    async def aauthenticate(  # type: ignore[override]
            self, request: HttpRequest | None, username: str | None = None, password: str | None = None,
            **credentials: Any) -> AbstractBaseUser | None:
        return await sync_to_async(self.authenticate)(request, username, password, **credentials)


def _begun(name: str) -> SignInAttempt:
    """The row of an attempt that is let through. Raises TooManyAttempts."""
    now = asking()
    row = SignInAttempt(mark=_mark(name), address=counted_as(now.address) if now is not None else "",
                        at=timezone.now())
    _refuse_too_many(row)  # most refusals need no lock
    with one_after_another(_LOCK):
        _refuse_too_many(row)
        SignInAttempt.objects.filter(at__lte=row.at - PERIOD).delete()
        row.save()
    return row


def _refuse_too_many(row: SignInAttempt) -> None:
    counted = list(SignInAttempt.objects.filter(
        Q(mark=row.mark) | Q(address=row.address), at__gt=row.at - PERIOD).values_list(
        "mark", "address", "at", "failed"))
    of_address = [(at, failed) for _, address, at, failed in counted if address == row.address]
    of_name = [(at, failed) for mark, _, at, failed in counted if mark == row.mark]
    of_both = [(at, failed) for mark, address, at, failed in counted if (mark, address) == (row.mark, row.address)]
    waits = [_wait(each, most, row.at) for each, most in (
        (of_both, MOST_OF_NAME_AND_ADDRESS), (of_address, MOST_OF_ADDRESS), (of_name, MOST_OF_NAME))]
    if any(waits):
        raise TooManyAttempts(max(wait for wait in waits if wait))


def _wait(counted: list[tuple[datetime, bool]], most: int, now: datetime) -> timedelta | None:
    """Until there is room for one more; None where there is."""
    if len(counted) < most:
        return None
    ends = sorted(at + PERIOD if failed else now + SHORTLY for at, failed in counted)
    return ends[len(counted) - most] - now


def _mark(name: str) -> str:
    """Stands for a name that was typed: it may have been a password, in the wrong field. Names that Django takes for
    the same, or that differ in case alone, have one mark.
    """
    folded = unicodedata.normalize("NFKC", User.normalize_username(name[:_LONGEST_NAME]).strip().casefold())
    return salted_hmac("nniweb.sign-in", folded.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _note_failure(row: SignInAttempt, name: str, reason: str) -> None:
    """A name is written into the log only where it is somebody's."""
    now = asking()
    known = User.objects.filter(username=User.normalize_username(name)).first() if name.isprintable() else None
    if now is not None and now.person is not None and not reason:
        reason = "asked for again, while signed in"
    with transaction.atomic():
        SignInAttempt.objects.filter(pk=row.pk).update(failed=True)
        AuditEntry.objects.create(
            action=FAILED, kind="user" if known else "", target=row.mark, name=known.username if known else "",
            address=now.address if now is not None else "", via=now.via[:150] if now is not None else "",
            details={"reason": reason} if reason else {})


@receiver(user_logged_in)
def _signed_in(user: Any, **_: Any) -> None:
    audit.record(SIGN_IN, user, user)


@receiver(user_logged_out)
def _signed_out(user: Any, **_: Any) -> None:
    if isinstance(user, User):
        audit.record(SIGN_OUT, user, user)
