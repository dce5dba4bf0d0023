"""Removes what an experiment has kept for as long as its retention says, a turn at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from nniweb.experiments.checkpoints.continued_trials import may_continue_trials
from nniweb.experiments.ingest.one_report import TOKEN_GRACE
from nniweb.experiments.launch.checkpoint_folders import has_checkpoints, remove_checkpoints
from nniweb.experiments.models import Attempt, CodeArchive, Experiment, ExperimentEvent, Trial
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS
from nniweb.experiments.retention.checkpoint_removal import let_go_of_checkpoints, remove_unused
from nniweb.experiments.retention.policy import OF_TRIALS, days_kept, in_days
from nniweb.experiments.retention.removal import Pace, Removed, remove_of_trials

logger = logging.getLogger(__name__)

#: Trials that are looked at for one transaction.
AT_ONCE = 200
_WHAT = {"output": "Output", "readings": "Intermediate results and readings", "files": "Kept files"}


class Retention:
    """Used by one thread. Remembers what it removed until it is through with an experiment, to say it once."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._so_far: dict[tuple[int, str], Removed] = {}
        self._took_from: set[int] = set()

    def apply(self, experiment: Experiment, now: datetime, is_over: Callable[[], bool]) -> bool:
        """Remove what is due; False where ``is_over`` came first and there is more."""
        days = days_kept(experiment.retention)
        for kind in OF_TRIALS:
            kept = days[kind]
            if kept is not None and not (kind == "readings" and _results_are_needed(experiment)):
                is_done = self._of_trials(experiment, kind, now, kept, is_over)
                if not is_done:
                    return False
                self._say(experiment, kind, kept, now)
        if days["files"] is not None and not may_continue_trials(experiment):
            let_go_of_checkpoints(experiment, now)
        if not remove_unused(experiment, now, self._pace, is_over):
            return False
        if days["files"] is not None or experiment.checkpoints_removed_at is not None:
            _checkpoints(experiment, now, days["files"])
        if experiment.code_id is not None and _is_due(experiment, now, days["code"]):
            _code(experiment, experiment.code_id, now, days["code"])
        return True

    def took_something(self, experiment: Experiment) -> bool:
        """Whether it removed something since it was asked last."""
        took = experiment.pk in self._took_from
        self._took_from.discard(experiment.pk)
        return took

    def _of_trials(self, experiment: Experiment, kind: str, now: datetime, days: int, is_over: Callable[[], bool]
                   ) -> bool:
        while True:
            trials = list(due_trials(experiment, kind, now, days).values_list("pk", flat=True)[:AT_ONCE])
            if not trials:
                return True
            if is_over():
                return False
            removed = remove_of_trials(kind, trials, now, self._pace, is_over)
            key = (experiment.pk, kind)
            self._so_far[key] = self._so_far.get(key, Removed()) + removed

    def _say(self, experiment: Experiment, kind: str, days: int, now: datetime) -> None:
        removed = self._so_far.pop((experiment.pk, kind), Removed())
        if not removed.trials:
            return
        self._took_from.add(experiment.pk)
        size = f" ({removed.bytes / 1e6:.1f} MB)" if removed.bytes else ""
        said = f"{_WHAT[kind]} of {removed.trials} trial{'' if removed.trials == 1 else 's'}{size} removed after " \
               f"{in_days(days)}."
        ExperimentEvent.objects.create(experiment=experiment, at=now, kind="retention", message=said)
        logger.info("experiment %s: %s", experiment.public_id, said)


def due_trials(experiment: Experiment, kind: str, now: datetime, days: int) -> QuerySet[Trial]:
    """Trials that ended so long ago and were not looked at yet, the oldest first.

    Not those whose keeper may still send something: a server that was away hears of an end late.
    """
    may_send = Attempt.objects.filter(trial=OuterRef("pk")).filter(
        ~Q(stage=Attempt.Stage.ENDED) | Q(end_received_at__gt=now - TOKEN_GRACE))
    return Trial.objects.filter(~Exists(may_send), **{f"{kind}_removed_at": None}, experiment=experiment,
                                ended_at__lte=now - timedelta(days=days)).order_by("ended_at")


def _results_are_needed(experiment: Experiment) -> bool:
    """Whether an assessor, or a tuner of one's own, would be told of them where it is begun anew."""
    return not experiment.is_finished and (experiment.assessor is not None or experiment.has_own_tuner)


def _as_it_ended(experiment: Experiment) -> QuerySet[Experiment]:
    """Its row, unless it goes on again, or has trials that do."""
    return Experiment.objects.filter(
        ~Exists(Trial.objects.unfinished().filter(experiment=OuterRef("pk"))), pk=experiment.pk, deleted_at=None,
        ended_at=experiment.ended_at).exclude(status__in=UNFINISHED_EXPERIMENTS)


def _is_due(experiment: Experiment, now: datetime, days: int | None) -> bool:
    return days is not None and experiment.is_finished and experiment.ended_at is not None \
        and experiment.ended_at <= now - timedelta(days=days)


def _checkpoints(experiment: Experiment, now: datetime, days: int | None) -> None:
    if not has_checkpoints(experiment):
        return
    if experiment.checkpoints_removed_at is None:
        if not _is_due(experiment, now, days):
            return
        with transaction.atomic():
            # first: from now on nothing goes on from them. Where it ends here, the next look sees that they are there
            if not _as_it_ended(experiment).update(checkpoints_removed_at=now):
                return
            ExperimentEvent.objects.create(experiment=experiment, at=now, kind="retention", message=(
                f"Checkpoints that trials handed on removed after {in_days(days)}."))
    remove_checkpoints(experiment)


def _code(experiment: Experiment, code: int, now: datetime, days: int | None) -> None:
    """Let go of the archive; it is removed where nobody else has it."""
    with transaction.atomic():
        CodeArchive.objects.filter(pk=code).update(last_used=now)
        if _as_it_ended(experiment).update(code=None, code_removed_at=now):
            ExperimentEvent.objects.create(experiment=experiment, at=now, kind="retention", message=(
                f"The copy of its code removed after {in_days(days)}."))
