"""Ends a token, and what it runs where that is asked."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nniweb.experiments.access import accounts, leashes
from nniweb.experiments.access.visibility import may_steer
from nniweb.experiments.actions import intents
from nniweb.experiments.models import ApiToken, Experiment, Trial, User


@dataclass(frozen=True)
class Stopped:
    """How much of what a token ran was asked to stop."""

    experiments: int = 0
    #: In experiments that it has not launched.
    trials: int = 0


def end(token: ApiToken, actor: User, *, stop: bool) -> Stopped:
    """Nothing gets in with the token from then on. What it has asked for goes on within its limits, or is stopped,
    as far as this person may change it: an experiment may have been handed over to somebody else.

    Ending it twice is harmless; the second time can stop what the first time left running. Each experiment is stopped
    by itself: where the process dies between two of them, ask again.
    """
    accounts.end_token(token, actor)
    return _stop_what_it_runs(token, actor) if stop else Stopped()


def _stop_what_it_runs(token: ApiToken, actor: User) -> Stopped:
    """What it has asked for and has not ended. A change by it that was under way when it was ended is over by now."""
    because = leashes.why_ended(ApiToken.objects.select_related("ended_by").get(pk=token.pk))
    groups = set(actor.groups.values_list("pk", flat=True))
    launched = Experiment.objects.unfinished().filter(token=token, deleted_at=None).order_by("pk")
    experiments = [experiment for experiment in launched if may_steer(actor, experiment, groups)]
    for experiment in experiments:
        intents.stop(experiment, actor, because)
    stopping = [experiment.pk for experiment in experiments]
    trials: dict[int, list[int]] = defaultdict(list)
    for pk, experiment_pk in Trial.objects.unfinished().filter(token=token).exclude(
            experiment__in=stopping).order_by("pk").values_list("pk", "experiment"):
        trials[experiment_pk].append(pk)
    count = 0
    for experiment in Experiment.objects.filter(pk__in=trials).order_by("pk"):
        if may_steer(actor, experiment, groups):
            count += len(intents.cancel_trials(experiment, trials[experiment.pk], actor, because))
    return Stopped(len(experiments), count)
