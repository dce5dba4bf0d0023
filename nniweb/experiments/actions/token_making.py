"""Makes a token with its leash and its budget, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from nniweb.experiments.access import accounts
from nniweb.experiments.access.leashes import Leash
from nniweb.experiments.budgets.budget_settings import set_budget
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ApiToken, Budget, User
from nniweb.experiments.models.account import Scope


def make_token(user: User, by: User, *, name: str, scope: Scope, expires_at: datetime | None,
               until: datetime | None = None, leash: Leash | None = None, budget: Mapping[str, Any] | None = None
               ) -> tuple[str, ApiToken]:
    """As ``accounts.make_token``. ``budget``: ``period`` and limits of a ``Budget``, for a token with a leash; None for
    none. Raises Refused, with fields such as ``budget.gpu_hours``.
    """
    if budget and leash is None:
        raise Refused("Limits need at least one role. Choose what the token may do.", "roles")
    with transaction.atomic():
        secret, token = accounts.make_token(user, by, name=name, scope=scope, expires_at=expires_at, until=until,
                                            leash=leash)
        if budget:
            try:
                set_budget(Budget(token=token), budget)
            except Refused as refused:
                raise Refused.for_fields([(f"budget.{field}".rstrip("."), said) for field, said in refused.errors]
                                         ) from None
    return secret, token
