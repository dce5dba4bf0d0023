"""What tokens run now: experiments that have not ended, and trials under way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count

from nniweb.experiments.models import Experiment
from nniweb.experiments.quotas.leash_limits import trials_under_way


@dataclass(frozen=True)
class TokenUse:
    """Of one token."""

    experiments: int = 0
    trials: int = 0

    @property
    def runs(self) -> bool:
        return bool(self.experiments or self.trials)


def use_of(tokens: Collection[int]) -> dict[int, TokenUse]:
    """By primary key, of each of these tokens. Two queries, however many there are."""
    experiments = dict(Experiment.objects.unfinished().filter(token__in=tokens, deleted_at=None).order_by().values_list(
        "token").annotate(number=Count("pk")))
    trials = trials_under_way(tokens)
    return {pk: TokenUse(experiments.get(pk, 0), trials.get(pk, 0)) for pk in tokens}
