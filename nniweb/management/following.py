"""Following an experiment of this machine's own database."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from django.utils import timezone

from nniweb.client import following
from nniweb.client.arguments import INTERRUPTED
from nniweb.documents import experiments
from nniweb.documents.trials import TrialSerializer, with_details
from nniweb.experiments.clusters.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.queries.explanation import explanations_of
from nniweb.experiments.queries.failures import failures_of
from nniweb.experiments.results.outcome import outcome_of
from nniweb.experiments.results.progress import progress_of
from nniweb.storage.own_files import COMMAND

#: Causes of failures that are counted.
_CAUSES = 100


class OwnExperiment:
    """An experiment in the database. As long as nothing changes one row is looked at."""

    look_every = 0.5
    how_to_start = HOW_TO_START

    def __init__(self, experiment: Experiment) -> None:
        self._pk = experiment.pk
        self._best: str | None = None

    def look(self) -> tuple[object, str] | None:
        return Experiment.objects.filter(pk=self._pk, deleted_at=None).values_list("revision", "status").first()

    def document(self) -> Mapping[str, Any]:
        experiment = Experiment.objects.get(pk=self._pk)
        found = progress_document(experiment)
        self._best = found["progress"]["best_trial_id"]
        return found

    def best_trial(self) -> Mapping[str, Any] | None:
        return trial_document(self._best)

    def front(self) -> Sequence[Mapping[str, Any]]:
        return front_documents(Experiment.objects.get(pk=self._pk))

    def failures(self) -> Sequence[Mapping[str, Any]]:
        return [asdict(each) for each in failures_of(Experiment.objects.get(pk=self._pk), _CAUSES)]

    def somebody_works(self) -> bool:
        return worker_is_alive()


class Follower(following.Follower):
    """Follows an experiment of this database; the clock is given by tests."""

    def __init__(self, experiment: Experiment, out: TextIO, **clock: Any) -> None:
        super().__init__(OwnExperiment(experiment), out, **clock)
        self._id = experiment.public_id

    def say_it_is_kept(self) -> None:
        """After Ctrl-C."""
        self.say_it_goes_on(COMMAND, self._id)


def follow(experiment: Experiment, out: Any) -> None:
    """Show it on ``out`` (a command's) until it ends. Exits with the status of its outcome where that is not 0."""
    out.ending = ""  # the follower's line moves
    follower = Follower(experiment, out)
    try:
        status = follower.follow()
    except KeyboardInterrupt:
        follower.say_it_is_kept()
        status = INTERRUPTED
    if status:
        sys.exit(status)


def progress_document(experiment: Experiment) -> dict[str, Any]:
    """Of an experiment's document what a line of progress needs."""
    progress = progress_of([experiment], timezone.now())[experiment.pk]
    explanation = explanations_of([experiment], {experiment.pk: progress})[experiment.pk]
    return {"status": str(experiment.status), "outcome": outcome_of(experiment, progress), "message": str(explanation),
            "max_trial_number": experiment.max_trial_number, "objectives": experiment.objectives,
            "progress": experiments.progress_document(progress)}


def front_documents(experiment: Experiment) -> list[dict[str, Any]]:
    """The first trials on the Pareto front, the best in the first objective first, as REST shows them."""
    sign = "-" if experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE else ""
    front = Trial.objects.filter(experiment=experiment, on_front=True).order_by(f"{sign}final_number", "sequence_id")
    return list(TrialSerializer(with_details(front[:following.MOST_OF_FRONT]), many=True,
                                context={"now": timezone.now()}).data)


def trial_document(public_id: str | None) -> dict[str, Any] | None:
    """A trial as REST shows it; None where there is none of this id."""
    trial = with_details(Trial.objects.filter(public_id=public_id)).first() if public_id else None
    return None if trial is None else dict(TrialSerializer(trial, context={"now": timezone.now()}).data)
