"""Which trials that wait are next to start: what leashes of tokens and budgets say of single trials.

Quotas and shares are no matter of single trials: how many may start is known before.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from nniweb.experiments.budgets.starting import candidate_of, why_not_in_budget
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import ApiToken, Attempt, Experiment, Trial
from nniweb.experiments.models.trial import TrialQuerySet, TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.quotas.leash_limits import first_to_start
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.trial_job_status import TrialJobStatus

#: Waiting trials that are looked at beyond those that could start, where there are budgets.
LOOKED_AT = 100


def next_to_start(work: ClusterWork, experiment: Experiment, waiting: TrialQuerySet, most: int) -> tuple[
        list[Trial], list[ApiToken], set[int]]:
    """At most so many of the experiment's waiting trials that leashes and budgets let start, as far as can be seen
    without holding them; tokens whose leash keeps others waiting; and primary keys of trials that wait for a budget and
    say so.
    """
    if work.budgets is None or not work.budgets.any_budget:
        first = first_to_start(waiting.order_by("sequence_id"), experiment, most,
                               lambda trial: trial.sequence_id)
        return first.trials, first.full, set()
    # those that have begun before are no trials more: where none may begin, they can go on
    first = first_to_start(
        waiting.annotate(has_begun=Exists(Attempt.objects.filter(trial=OuterRef("pk")))).order_by(
            "-has_begun", "sequence_id"), experiment, most + LOOKED_AT,
        lambda trial: (not trial.has_begun, trial.sequence_id))  # type: ignore[attr-defined]  # it was asked for
    trials = first.trials
    why_not = why_not_in_budget(
        experiment, [candidate_of(trial, trial.has_begun) for trial in trials],  # type: ignore[attr-defined]
        work.now(), locks=False)
    told: set[int] = set()
    for reason in {why for why in why_not if why is not None}:
        its = {trial.pk: trial.message for trial, why in zip(trials, why_not, strict=True) if why == reason}
        told |= its.keys()
        if silent := [pk for pk, message in its.items() if message != reason]:
            with work.lease.transaction():
                Trial.objects.filter(pk__in=silent, target=TrialTarget.RUN, status=TrialJobStatus.WAITING.value).update(
                    revision=next_revision(experiment.pk, needs_round=False), **said(reason))
    return [trial for trial, why in zip(trials, why_not, strict=True) if why is None][:most], first.full, told
