"""Which trials that wait are next to start: what leashes of tokens and budgets say of single trials.

Quotas and shares are no matter of single trials: how many may start is known before.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from nniweb.experiments.budgets.starting import candidate_of, why_not_in_budget
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import ApiToken, Attempt, Experiment, Trial
from nniweb.experiments.models.trial import TrialQuerySet
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.quotas.leash_limits import first_to_start
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.reasons import Reason


@dataclass(frozen=True)
class NextTrials:
    """Which waiting trials are next. ``full``: tokens whose leash keeps others of them waiting. ``others``: all that do
    not wait for a budget. ``any_for_budget``: whether some do; they say so.
    """

    trials: list[Trial]
    full: list[ApiToken]
    others: TrialQuerySet
    any_for_budget: bool = False


def next_to_start(work: ClusterWork, experiment: Experiment, waiting: TrialQuerySet, most: int) -> NextTrials:
    """At most so many of the experiment's waiting trials that leashes and budgets let start, as far as can be seen
    without holding them.
    """
    if work.budgets is None or not work.budgets.any_budget:
        first = first_to_start(waiting.order_by("sequence_id"), experiment, most, lambda trial: trial.sequence_id)
        return NextTrials(first.trials, first.full, waiting)
    known = waiting.annotate(has_begun=Exists(Attempt.objects.filter(trial=OuterRef("pk"))))
    in_order = known.order_by("-has_begun", "sequence_id")
    # of each token: where its first ones wait for a budget, so do the rest, and keep nobody else waiting
    tokens = list(waiting.order_by().values_list("token", flat=True).distinct())
    firsts = [first_to_start(in_order.filter(token=token), experiment, most, _order) for token in tokens]
    trials = sorted((trial for first in firsts for trial in first.trials), key=_order)
    why_not = why_not_in_budget(experiment, [candidate_of(trial, _has_begun(trial)) for trial in trials], work.now(),
                                locks=False)
    found = [trial for trial, why in zip(trials, why_not, strict=True) if why is None]
    refused: dict[int | None, dict[bool, Reason]] = defaultdict(dict)
    for trial, why in zip(trials, why_not, strict=True):
        if why is not None:
            refused[trial.token_id][_has_begun(trial)] = why
    others = known
    for token, reasons in refused.items():
        if True in reasons:  # what keeps those waiting that are no trials more keeps all waiting
            reasons.setdefault(False, reasons[True])
        for has_begun, reason in reasons.items():
            its = known.filter(token=token, has_begun=has_begun)
            say_what_they_wait_for(work, experiment, its.exclude(pk__in=[trial.pk for trial in found]), reason)
            others = others.exclude(token=token, has_begun=has_begun)
    return NextTrials(found[:most], [token for first in firsts for token in first.full], others, bool(refused))


def say_what_they_wait_for(work: ClusterWork, experiment: Experiment, waiting: TrialQuerySet, reason: str) -> bool:
    """Have these trials of the experiment, which wait, say so. Whether there are any."""
    messages = set(waiting.values_list("message", flat=True).distinct())
    if messages - {reason}:
        with work.lease.transaction():
            revision = next_revision(experiment.pk, needs_round=False)  # from here on nobody ends one of them
            pks = list(waiting.exclude(message=reason).values_list("pk", flat=True))
            Trial.objects.filter(pk__in=pks).update(revision=revision, **said(reason))
    return bool(messages)


def _order(trial: Trial) -> tuple[bool, int]:
    """Those that have begun before are no trials more: where none may begin, they can go on."""
    return not _has_begun(trial), trial.sequence_id


def _has_begun(trial: Trial) -> bool:
    return bool(trial.has_begun)  # type: ignore[attr-defined]  # it was asked for
