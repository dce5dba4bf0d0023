"""Sessions in the database, of which only digests of their keys are stored: what a browser sends opens nothing but the
row with its digest, and no row says what a browser would have to send.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.sessions.backends import db
from django.utils import timezone

from nniweb.experiments.models import Session
from nniweb.experiments.models.account import hash_of


class SessionStore(db.SessionStore):
    """Django's, with ``Session`` for its rows. ``session_key`` is what the browser has."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def _get_session_from_db(self) -> Session | None:
        found = Session.objects.filter(session_key=hash_of(self.session_key or ""),
                                       expire_date__gt=timezone.now()).first()
        if found is None:
            self._session_key = None
        return found

    def exists(self, session_key: str) -> bool:
        return Session.objects.filter(session_key=hash_of(session_key)).exists()

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        key = self._get_or_create_session_key()  # type: ignore[attr-defined]  # private, stable since Django 1.4
        return Session(session_key=hash_of(key), session_data=self.encode(data),
                       expire_date=self.get_expiry_date())

    def delete(self, session_key: str | None = None) -> None:
        key = self.session_key if session_key is None else session_key
        if key is not None:
            Session.objects.filter(session_key=hash_of(key)).delete()

    # --- for ASGI ---------------------------------------------------------------------------

    async def _aget_session_from_db(self) -> Session | None:
        return await sync_to_async(self._get_session_from_db)()

    async def aexists(self, session_key: str) -> bool:
        return await sync_to_async(self.exists)(session_key)

    async def acreate_model_instance(self, data: dict[str, Any]) -> Session:
        return await sync_to_async(self.create_model_instance)(data)

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)


def living(keys: Collection[str]) -> set[str]:
    """Those of these sessions (what browsers have) that have neither ended nor run out; one query."""
    by_hash = {hash_of(key): key for key in keys}
    found = Session.objects.filter(session_key__in=by_hash, expire_date__gt=timezone.now())
    return {by_hash[each] for each in found.values_list("session_key", flat=True)}


def forget_sessions(now: datetime) -> int:
    """Remove those that ran out: whoever begins a single sign-on leaves one behind. Returns how many."""
    return Session.objects.filter(expire_date__lt=now).delete()[0]
