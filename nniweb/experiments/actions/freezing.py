"""Freezing trials and thawing them: each gives up its place and goes on later, from its last checkpoint.

What is wanted is written here, as a trial's target; the worker and the keepers carry it out. A frozen trial is an
unfinished one without an attempt under way, whose target is one of ``RESTS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.actions.locked_experiment import locked
from nniweb.experiments.errors import Refused
from nniweb.experiments.lifecycle.transitions import set_targets
from nniweb.experiments.lifecycle.trial_end import why_it_waits
from nniweb.experiments.models import Attempt, Experiment, Trial, User
from nniweb.experiments.models.trial import RESTS, TrialQuerySet, TrialTarget
from trainingservice.errors import TrainingServiceError
from trainingservice.platforms import load_platform
from trainingservice.reasons import Reason


def freeze_trials(experiment: Experiment, trial_pks: Sequence[int], actor: User | None = None) -> set[int]:
    """Freeze these trials of the experiment, until somebody thaws them.

    Primary keys of those that this changed: not of ended ones, those that are being stopped, and frozen ones. Raises
    Refused where the platform's trials cannot be frozen.
    """
    with transaction.atomic():
        experiment, revision = locked(experiment)
        must_be_able_to_freeze(experiment)
        wanted = set_targets(_of(experiment).filter(pk__in=trial_pks).only("pk"), TrialTarget.FROZEN, timezone.now(),
                             revision=revision, reason=frozen_by(actor), actor=actor)
        if wanted:
            audit.record("trials.freeze", experiment, actor, count=len(wanted))
        return {trial.pk for trial in wanted}


def thaw_trials(experiment: Experiment, trial_pks: Sequence[int], actor: User | None = None) -> set[int]:
    """Have these trials go on as soon as there is a free slot; primary keys of those that were frozen."""
    with transaction.atomic():
        experiment, revision = locked(experiment)
        thawed = _thaw(experiment, _of(experiment).filter(pk__in=trial_pks), timezone.now(), revision, actor)
        if thawed:
            audit.record("trials.thaw", experiment, actor, count=len(thawed))
        return thawed


def hold_trials(experiment: Experiment, at: datetime, revision: int, actor: User | None) -> None:
    """Freeze what is under way until the experiment is resumed. Within the caller's transaction."""
    running = Attempt.objects.under_way().filter(trial__experiment=experiment).values_list("trial", flat=True)
    set_targets(_of(experiment).filter(pk__in=list(running)).only("pk"), TrialTarget.HELD, at, revision=revision,
                reason=Reason("frozen_with_experiment"), actor=actor)


def release_trials(experiment: Experiment, at: datetime, revision: int, actor: User | None) -> None:
    """Have those go on that were frozen with the experiment. Within the caller's transaction."""
    _thaw(experiment, _of(experiment).filter(target=TrialTarget.HELD), at, revision, actor)


def can_freeze(experiment: Experiment) -> bool:
    """Whether somebody is with its trials who can tell them to save a checkpoint."""
    try:
        return load_platform(experiment.cluster.platform).keepers_report
    except TrainingServiceError:  # a library is missing here; the cluster's worker has it
        return True


def must_be_able_to_freeze(experiment: Experiment) -> None:
    """Raises Refused where nobody would tell the trials to save a checkpoint."""
    if not can_freeze(experiment):
        raise Refused(Reason("cannot_freeze", platform=experiment.cluster.platform))


def frozen_by(actor: User | None) -> Reason:
    """Why a trial waits that a person froze."""
    return Reason("frozen", by=actor.username) if actor else Reason("frozen")


def _thaw(experiment: Experiment, trials: TrialQuerySet, at: datetime, revision: int, actor: User | None) -> set[int]:
    frozen = trials.filter(target__in=RESTS).only("pk")
    at_rest = list(frozen.without_attempt())
    thawed = set_targets(at_rest, TrialTarget.RUN, at, revision=revision, reason=why_it_waits(experiment.status),
                         actor=actor)
    # the others still end their attempt, and then wait for a slot
    return {trial.pk for trial in [*thawed, *set_targets(frozen, TrialTarget.RUN, at, revision=revision, reason="",
                                                         actor=actor)]}


def _of(experiment: Experiment) -> TrialQuerySet:
    return Trial.objects.unfinished().filter(experiment=experiment)
