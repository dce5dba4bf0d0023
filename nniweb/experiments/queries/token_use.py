"""What tokens run now: experiments that have not ended, and trials under way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count

from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.quotas.leash_limits import trials_under_way


@dataclass(frozen=True)
class TokenUse:
    """Of one token."""

    experiments: int = 0
    trials: int = 0

    @property
    def runs(self) -> bool:
        return bool(self.experiments or self.trials)


def use_of(tokens: Collection[int], viewer: User) -> dict[int, TokenUse]:
    """By primary key, of each of these tokens, as far as this person may see it. Two queries, however many there are.
    """
    seen = visible_experiments(viewer)
    experiments = dict(Experiment.objects.unfinished().filter(token__in=tokens, pk__in=seen.values("pk")).order_by(
        ).values_list("token").annotate(number=Count("pk")))
    trials = trials_under_way(tokens, None if viewer.is_admin else seen)
    return {pk: TokenUse(experiments.get(pk, 0), trials.get(pk, 0)) for pk in tokens}
