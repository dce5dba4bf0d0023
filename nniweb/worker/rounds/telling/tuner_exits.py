"""Custom tuners of experiments that are over: they receive the last results and the end, also after a crash.

``move_experiment`` writes ``tuner_exit_tries`` with the end, and the tuner's process is told of it. When that has ended
the mark goes. Where it could not end (the server was killed), the tuner is created again from the record and told.
"""

from __future__ import annotations

from django.db import models

from nniweb.experiments.lifecycle.tuner_events import number_of_ends
from nniweb.experiments.models import Experiment, ExperimentEvent, Trial
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.exact_text import printable
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.tuning.process.tuner_client import ExitKind, TunerExit
from nniweb.worker.rounds.cluster_work import ClusterWork

logger = ExperimentLogger(__name__)

#: Seconds between two looks. The first comes when the worker takes the cluster.
LOOK_SECONDS = 10.0
#: How often a tuner is told of the end, the first time included. Each time that the server is killed counts.
MOST_TRIES = 5
#: Tuners that end at the same time, as far as they were created for that.
MOST_AT_ONCE = 4
#: To receive its history again a tuner has the time that its experiment took, but no more than this, in seconds.
MOST_REPLAY_SECONDS = 3600.0


def make_up_for_exits(work: ClusterWork) -> None:
    """Create tuners again that did not receive everything, and tell them. Costs a query each LOOK_SECONDS."""
    if work.monotonic() < work.next_look_for_exits:
        return
    work.next_look_for_exits = work.monotonic() + LOOK_SECONDS
    waiting = Experiment.objects.filter(
        cluster=work.cluster_pk, deleted_at=None, tuner_exit_tries__isnull=False).exclude(
        pk__in=work.tuners.exiting).order_by("ended_at", "pk")
    for experiment in waiting[:max(0, MOST_AT_ONCE - len(work.tuners.exiting))]:
        with log_ids(experiment=experiment.public_id):
            _tell_again(work, experiment)


def _tell_again(work: ClusterWork, experiment: Experiment) -> None:
    if experiment.pk in work.tuners:  # it was given up before its tuner was told
        work.tuners.finish(experiment.pk)
        return
    tries = experiment.tuner_exit_tries or 0
    if not experiment.next_tuner_event:
        work.why_told_again.pop(experiment.pk, None)
        _settle(work, experiment, "")  # it has heard nothing
    elif tries >= MOST_TRIES:
        work.why_told_again.pop(experiment.pk, None)
        _settle(work, experiment, f"The tuner was told {tries} times that the experiment is over. Each time its "
                                  "process or the server ended before it had finished. "
                                  f"{_not_arrived(experiment, None)}")
    else:
        # before it begins: a tuner that brings the server down counts, too
        with work.lease.transaction():
            if not _marked(experiment).update(tuner_exit_tries=tries + 1):
                return
            said = (f"The tuner is created again and told of the end (attempt {tries + 1} of {MOST_TRIES}), because "
                    f"{work.why_told_again.pop(experiment.pk, 'the server ended')} before it had received everything.")
            _note(work, experiment, said)
        logger.info("%s", said)
        if work.tuners.ready(experiment):
            work.tuners.finish(experiment.pk, _replay_seconds(experiment))


def note_exit(work: ClusterWork, experiment_pk: int, how: TunerExit) -> None:
    """The tuner's process has ended. Unless that was before its time, the experiment's tuner is told no more.

    Else the next look tells it again.
    """
    work.next_look_for_exits = 0.0
    experiment = Experiment.objects.filter(pk=experiment_pk, tuner_exit_tries__isnull=False).first()
    if experiment is None:
        return
    if how.kind in (ExitKind.DIED, ExitKind.INTERRUPTED):
        work.why_told_again[experiment_pk] = (f"its process died ({how.error})" if how.kind is ExitKind.DIED
                                              else "the server interrupted it")
        return
    with log_ids(experiment=experiment.public_id):
        if how.kind is ExitKind.FAILED:
            said = f"When the experiment was over, its tuner or assessor failed: {how.error}"
        elif how.kind is ExitKind.OUT_OF_TIME:
            said = ("The tuner was ended, because it needed too long after the end of the experiment "
                    f"(NNIWEB_TUNER_EXIT_SECONDS). {_not_arrived(experiment, how.results)}")
        else:
            said = ""
        _settle(work, experiment, said)


def note_failure(work: ClusterWork, experiment: Experiment, untaken: int | None) -> None:
    """A custom tuner or assessor has ended its experiment: it is told nothing more, and its history says what it does
    not receive. ``untaken``: how many results it was told and had not taken; None: nobody knows which of all. Inside
    the caller's transaction.
    """
    if not (experiment.has_own_tuner or experiment.has_own_assessor):
        return
    lost = f"up to {number_of_ends(experiment)}" if untaken is None else untaken
    later = Trial.objects.unfinished().filter(experiment=experiment).count()
    _note(work, experiment, "The tuner and the assessor are told nothing more, and _on_exit was not called. Results "
                            f"that did not arrive: {lost}. Trials that had not ended: {later}.")


def _settle(work: ClusterWork, experiment: Experiment, said: str) -> None:
    """Whatever has come of it, the tuner is told no more. ``said``: what people should know, a sentence or two."""
    with work.lease.transaction():
        if not _marked(experiment).update(tuner_exit_tries=None) or not said:
            return
        _note(work, experiment, said)
    logger.warning("%s", said)


def _note(work: ClusterWork, experiment: Experiment, said: str) -> None:
    """An event of the experiment's history. Inside the caller's transaction."""
    next_revision(experiment.pk, needs_round=False)
    ExperimentEvent.objects.create(experiment=experiment, at=work.now(), kind="tuner", message=printable(said))


def _marked(experiment: Experiment) -> models.QuerySet[Experiment]:
    """The experiment, unless somebody went on with it or deleted it meanwhile."""
    return Experiment.objects.filter(pk=experiment.pk, deleted_at=None, tuner_exit_tries=experiment.tuner_exit_tries)


def _not_arrived(experiment: Experiment, results: int | None) -> str:
    """``results``: how many have not arrived; None: nobody knows which of all."""
    if results == 0:
        return "All results had arrived, but _on_exit had not returned."
    if results is None:
        return f"Up to {number_of_ends(experiment)} results did not arrive, and _on_exit was not called."
    return f"{results} results did not arrive, and _on_exit was not called."


def _replay_seconds(experiment: Experiment) -> float:
    if experiment.started_at is None or experiment.ended_at is None:
        return 0.0
    return min(max(0.0, (experiment.ended_at - experiment.started_at).total_seconds()), MOST_REPLAY_SECONDS)
