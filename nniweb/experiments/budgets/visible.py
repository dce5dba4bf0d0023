"""Which budgets, and which rows of the ledger, a person may see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from django.db.models import Q, QuerySet

from nniweb.experiments.access.visibility import may_steer, visible_experiments
from nniweb.experiments.budgets.concerned import Held
from nniweb.experiments.budgets.forecast import Forecast
from nniweb.experiments.models import Budget, LedgerEntry, User

_OF_EACH_PERSON = Q(user=None, group=None, token=None, experiment=None)


def visible_budgets(reader: User) -> QuerySet[Budget]:
    """Administrators see all; others those of their own, of their groups, their tokens and the experiments that they
    see, and that of each person.
    """
    budgets = Budget.objects.select_related("user", "group", "token", "experiment").order_by("pk")
    if reader.is_admin:
        return budgets
    return budgets.filter(
        Q(user=reader) | Q(group__in=reader.groups.all()) | Q(token__user=reader)
        | Q(experiment__in=visible_experiments(reader)) | _OF_EACH_PERSON)


def seen_by(budget: Budget, reader: User) -> Held:
    """The budget; of one that each person has, the reader's own."""
    of_each = (budget.user_id, budget.group_id, budget.token_id, budget.experiment_id) == (None,) * 4
    return Held(budget, reader.pk if of_each else 0)


def may_change_budget(reader: User, budget: Budget) -> bool:
    """Administrators; and of an experiment's own one whoever may change the experiment."""
    if reader.is_admin:
        return True
    return budget.is_own and budget.experiment is not None and may_steer(reader, budget.experiment)


def visible_entries(reader: User) -> QuerySet[LedgerEntry]:
    """Administrators see all rows; others those of their own and their groups' experiments, and of their tokens."""
    if reader.is_admin:
        return LedgerEntry.objects.all()
    groups = list(reader.groups.values_list("pk", flat=True))
    tokens = list(reader.api_tokens.values_list("pk", flat=True))
    return LedgerEntry.objects.filter(Q(owner_id=reader.pk) | Q(group_id__in=groups) | Q(token_id__in=tokens))


def may_see_standing(reader: User, held: Held, seen: Collection[int]) -> bool:
    """Whether the reader may see how a budget of somebody's experiment stands. ``seen``: primary keys of
    ``visible_budgets``. Of one that each person has only that person and administrators do.
    """
    return reader.is_admin or held.budget.pk in seen and held.person in (0, reader.pk)


def visible_forecast(found: Forecast, reader: User) -> Forecast:
    """The same with the budgets that the reader may see."""
    if not found.budgets:
        return found
    seen = set(visible_budgets(reader).filter(
        pk__in=[one.held.budget.pk for one in found.budgets]).values_list("pk", flat=True))
    return replace(found, budgets=[one for one in found.budgets if may_see_standing(reader, one.held, seen)])
