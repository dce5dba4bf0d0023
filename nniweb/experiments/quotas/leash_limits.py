"""Trials at a time of tokens with a leash: how many are under way, and which waiting trials may start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Coalesce

from nniweb.experiments.models import ApiToken, Attempt, Experiment, Trial
from nniweb.experiments.models.trial import TrialQuerySet
from trainingservice.reasons import Reason

#: The token that a trial counts for: its own, else that of its experiment.
COUNTED_TOKEN = Coalesce("trial__token", "trial__experiment__token")


def trials_under_way(tokens: Collection[int], among: QuerySet[Experiment] | None = None) -> dict[int, int]:
    """How many trials of each of these tokens (primary keys) were given to their platform and have not ended. One
    query, as long as what is under way. ``among``: count those of these experiments only.
    """
    if not tokens:
        return {}
    attempts = Attempt.objects.under_way()
    if among is not None:
        attempts = attempts.filter(trial__experiment__in=among.values("pk"))
    return dict(attempts.annotate(counted=COUNTED_TOKEN).filter(counted__in=list(tokens)).order_by(
        ).values_list("counted").annotate(number=Count("pk")))


def why_full(token: ApiToken) -> Reason:
    """Why a trial of the token waits while as many as its leash allows are under way."""
    return Reason("leash_trials", token=str(token), most=token.max_trials or 0)


def limited_tokens(trials: Sequence[Trial], experiment: Experiment) -> list[ApiToken]:
    """Tokens with a limit for which these trials count by themselves, not by their experiment: that one's limit is
    among the experiment's own. No query where none was asked for by another token.
    """
    tokens = {trial.token_id for trial in trials if trial.token_id not in (None, experiment.token_id)}
    return list(ApiToken.objects.filter(pk__in=tokens, max_trials__isnull=False).order_by("pk")) if tokens else []


def hold(tokens: Collection[int]) -> None:
    """Inside the transaction that starts trials: whoever starts some for one of these tokens (primary keys) elsewhere
    waits for its end. Held before quotas are, in one order.
    """
    if tokens:
        list(ApiToken.objects.select_for_update(no_key=True).filter(pk__in=tokens).order_by("pk").values_list("pk"))


@dataclass(frozen=True)
class FirstToStart:
    """Which waiting trials are next. ``full``: tokens whose leash keeps others of them waiting."""

    trials: list[Trial]
    full: list[ApiToken]


def first_to_start(waiting: TrialQuerySet, experiment: Experiment, most: int, order: Callable[[Trial], Any]
                   ) -> FirstToStart:
    """The first ``most`` of the experiment's waiting trials, in their order, that leashes let start as it is now: those
    of a token whose leash is used up keep nobody else waiting. ``order``: of two trials, as the query has it.
    """
    trials = list(waiting[:most])
    if not limited_tokens(trials, experiment):
        return FirstToStart(trials, [])
    number = dict(waiting.order_by().values_list("token").annotate(number=Count("pk")))
    tokens = list(ApiToken.objects.filter(
        pk__in=[pk for pk in number if pk not in (None, experiment.token_id)], max_trials__isnull=False).order_by("pk"))
    room = _room(tokens)
    found = list(waiting.exclude(token__in=list(room))[:most])
    for token in tokens:
        found += waiting.filter(token=token)[:min(most, room[token.pk])]
    found.sort(key=order)
    return FirstToStart(found[:most], [token for token in tokens if number[token.pk] > room[token.pk]])


def within_leashes(trials: Sequence[Trial], experiment: Experiment) -> list[Trial]:
    """Those of these trials, in their order, that may start by the leashes of other tokens than the experiment's.
    Inside the transaction that starts them.
    """
    tokens = limited_tokens(trials, experiment)
    if not tokens:
        return list(trials)
    hold({token.pk for token in tokens} | ({experiment.token_id} if experiment.token_id is not None else set()))
    left = _room(tokens)
    found = []
    for trial in trials:
        if trial.token_id in left:
            if left[trial.token_id] <= 0:
                continue
            left[trial.token_id] -= 1
        found.append(trial)
    return found


def _room(tokens: Sequence[ApiToken]) -> dict[int, int]:
    under_way = trials_under_way([token.pk for token in tokens])
    return {token.pk: max(0, (token.max_trials or 0) - under_way.get(token.pk, 0)) for token in tokens}


#: Trials that wait for the leash of another token than their experiment's: whatever room there is, they do not start.
WAITS_FOR_OTHER_LEASH = Q(reason="leash_trials", token__isnull=False) & (
    Q(experiment__token=None) | ~Q(token=F("experiment__token")))
