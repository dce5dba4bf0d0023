"""Warm places: trials are given to jobs that stay, and what the platform says of such a job is said of its trial.

The platform's service knows the job of a place by its first trial alone. A trial that is given to a place is not handed
to the service: the process of the place fetches it (``nniweb.experiments.ingest.place_requests``). A stop reaches it as
an order in the answers to its keeper; only where that comes to nothing the job of the place is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from nniweb.experiments.lifecycle.places import close, give, is_of_use, take_away
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import Attempt, Experiment, Place, Trial
from nniweb.experiments.models.experiment import ExperimentTarget
from nniweb.experiments.models.experiment_cluster import options_on
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.changed_rows import IfNone, update
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.errors import TrainingServiceError, UnknownTrialJob
from trainingservice.reasons import OF_PLATFORMS, Reason, because_of, code_of
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: Seconds between two looks at all places of a cluster.
LOOK_SECONDS = 5.0
#: A place asks every few seconds while it has no trial. After so many seconds without a question it is given none.
ASKS_WITHIN = 30.0
#: ... and after so many it is given up, as one that has not taken what it was given, and one of an experiment that is
#: over.
GIVE_UP_AFTER, CLAIM_WITHIN, LEAVE_WITHIN = 90.0, 30.0, 20.0
#: Seconds that a keeper has to carry out a stop it is ordered, until the job of its place is removed: the answer to its
#: next report, the grace period, and what is left to be sent.
ORDER_HAS = 60.0


# --- giving ----------------------------------------------------------------------------------


def without_place(work: ClusterWork, attempts: Iterable[Attempt]) -> list[Attempt]:
    """Those that no place takes, of attempts that are to be handed over; the others are given to places."""
    rest: list[Attempt] = []
    waiting: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        experiment = attempt.trial.experiment
        reuses = attempt.cluster_id == work.cluster_pk and work.service is not None and work.service.has_places \
            and not experiment.multi_phase and options_on(experiment, attempt.cluster_id).get("reuseMode")
        (waiting.setdefault(experiment.pk, []) if reuses else rest).append(attempt)
    for its in waiting.values():
        rest += _give(work, its[0].trial.experiment, its)
    return rest


def _give(work: ClusterWork, experiment: Experiment, attempts: Sequence[Attempt]) -> list[Attempt]:
    now = work.now()
    waiting_places = Place.objects.filter(
        experiment=experiment, cluster=work.cluster_pk, closed_at__isnull=True, attempt__stage=Attempt.Stage.ENDED,
        ).select_related("attempt").order_by("-attempt__end_received_at")
    free = [place for place in waiting_places
            if is_of_use(place, place.attempt, experiment) and _speaks(place, place.attempt, now)]
    if not free:
        return list(attempts)
    given: dict[int, Place] = {}
    with work.lease.transaction():
        revision = next_revision(experiment.pk, needs_round=False)
        waiting = list(attempts)
        for place in free:
            if waiting and give(place, waiting[0], now):
                attempt = waiting.pop(0)
                given[attempt.pk] = place
                update(Trial, "id = %s", [attempt.trial_id], submitted_at=IfNone(now), revision=revision, **said(""))
    for attempt in attempts:
        if attempt.pk in given:
            work.not_before.pop(attempt.pk, None)
            work.failures.pop(attempt.pk, None)
            logger.info("trial %d runs in the warm place %s", attempt.trial.sequence_id, given[attempt.pk].job_name,
                        extra={"trial": attempt.trial.public_id})
    return [attempt for attempt in attempts if attempt.pk not in given]


def _speaks(place: Place, last: Attempt, now: datetime) -> bool:
    """Whether its process has asked, or its trial has ended, a moment ago."""
    since = max(place.asked_at, last.end_received_at or place.asked_at)
    return (now - since).total_seconds() < ASKS_WITHIN


# --- what the platform says --------------------------------------------------------------------


def with_guests(work: ClusterWork, details: Sequence[TrialJobDetail]) -> tuple[list[TrialJobDetail], list[Place]]:
    """Beside what the platform says of jobs what that means for trials that run in them; and the open places among
    them whose job has ended, which the caller closes when all is written.
    """
    if work.service is None or not work.service.has_places or not details:
        return list(details), []
    by_name = {detail.id: detail for detail in details}
    found, ended = list(details), []
    # by the cluster, not by the jobs: there are few places, and mostly none, and there may be very many jobs
    for place in Place.objects.filter(cluster=work.cluster_pk, closed_at__isnull=True).select_related("attempt"):
        if place.job_name not in by_name:
            continue
        detail, guest = by_name[place.job_name], place.attempt
        is_over = detail.status.is_end or detail.suspended or detail.interrupted
        if is_over:
            ended.append(place)
        if guest.job_name == place.job_name or guest.stage == Attempt.Stage.ENDED:
            continue
        if not (is_over and _is_taken_away(work, place, guest)):
            found.append(_lost(detail, guest) if is_over else _of_guest(detail, guest))
    return found, ended


def _of_guest(detail: TrialJobDetail, guest: Attempt) -> TrialJobDetail:
    """What is known of the trial that runs in a job which is there."""
    status = TrialJobStatus.RUNNING if guest.journal_id else TrialJobStatus.WAITING
    unknown = detail.status is TrialJobStatus.UNKNOWN
    return replace(detail, id=guest.job_name, status=TrialJobStatus.UNKNOWN if unknown else status,
                   message=detail.message if unknown else "", start_time=None, end_time=None, exit_code=None, cause="",
                   is_early_stopped=None, working_directory="", interpreter=None, suspended=False, interrupted=False,
                   refused=False, tags=tuple(guest.tags), platform_state=guest.platform_state)


def _lost(detail: TrialJobDetail, guest: Attempt) -> TrialJobDetail:
    """The job ended while the trial ran in it. How the job's first trial ended says nothing."""
    canceled = detail.suspended or detail.status in (
        TrialJobStatus.SYS_CANCELED, TrialJobStatus.USER_CANCELED, TrialJobStatus.EARLY_STOPPED)
    why = detail.cause or (detail.message if code_of(detail.message) in OF_PLATFORMS else "")
    return replace(_of_guest(detail, guest), cause=detail.cause, end_time=detail.end_time,
                   status=TrialJobStatus.SYS_CANCELED if canceled else TrialJobStatus.FAILED,
                   message=Reason("place_lost", said=str(why), **because_of(why)))


def close_ended(places: Iterable[Place]) -> None:
    """Their jobs are over."""
    for place in places:
        close(place, Reason("place_lost", said=""))


def _is_taken_away(work: ClusterWork, place: Place, guest: Attempt) -> bool:
    """Have a trial that has not begun in its place placed anew, which costs it nothing."""
    with work.lease.transaction():
        next_revision(place.experiment_id)
        return take_away(place, guest)


# --- stops -------------------------------------------------------------------------------------


def job_to_stop(work: ClusterWork, trial: Trial, attempt: Attempt) -> str | None:
    """The job that the platform is to remove so that an attempt ends; None while there is none: its keeper was given
    the order, or its place is gone.
    """
    if attempt.place_id is None:
        return attempt.job_name
    place = Place.objects.get(pk=attempt.place_id)
    is_host = attempt.job_name == place.job_name
    if place.closed_at is not None:
        return attempt.job_name if is_host else None
    if not is_host and not attempt.journal_id and _is_taken_away(work, place, attempt):
        return None  # in the next round it is one that was never handed over
    if trial.experiment.target == ExperimentTarget.STOP:
        return place.job_name  # nobody needs the place any more, either
    due = work.place_stops.setdefault(attempt.pk, work.monotonic() + ORDER_HAS)
    return place.job_name if work.monotonic() >= due else None


# --- places that are not needed, or do not answer --------------------------------------------------


def look_after(work: ClusterWork) -> None:
    """Give up places of experiments that are over, those that are silent, and those that do not take their trial."""
    now = work.monotonic()
    if work.service is None or not work.service.has_places or now < work.next_look_at_places:
        return
    work.next_look_at_places = now + LOOK_SECONDS
    open_ones = list(Place.objects.filter(cluster=work.cluster_pk, closed_at__isnull=True).select_related(
        "attempt", "experiment"))
    noted, work.places_noted = work.places_noted, {}
    for place in open_ones:
        state, patience = _state(place)
        if state is None:
            continue
        before = noted.get(place.pk)
        since = before[1] if before is not None and before[0] == state else now
        work.places_noted[place.pk] = (state, since)
        if now - since >= patience:
            _give_up(work, place)
    if not open_ones:
        work.place_stops.clear()


def _state(place: Place) -> tuple[object, float]:
    """What must not stay as it is for longer than so many seconds; None: nothing."""
    guest = place.attempt
    if guest.stage == Attempt.Stage.ENDED:
        if place.experiment.is_finished or place.experiment.target == ExperimentTarget.STOP:
            return ("over", guest.pk), LEAVE_WITHIN
        return ("waits", guest.pk, place.asked_at), GIVE_UP_AFTER
    if guest.job_name != place.job_name and not guest.journal_id:
        return ("given", guest.pk), CLAIM_WITHIN
    return None, 0.0


def _give_up(work: ClusterWork, place: Place) -> None:
    service = work.service
    guest = place.attempt
    if service is None:
        return
    if guest.stage != Attempt.Stage.ENDED and not _is_taken_away(work, place, guest):
        return  # it has begun meanwhile
    with work.lease.transaction():
        next_revision(place.experiment_id)
        closed = close(place, Reason("place_lost", said=""))
    if not closed:
        return
    with log_ids(experiment=place.experiment.public_id):
        logger.warning("the warm place %s does not answer; its job is removed", place.job_name)

    def failed(error: TrainingServiceError) -> None:
        if not isinstance(error, UnknownTrialJob):
            logger.warning("the job of the warm place %s could not be removed: %s", place.job_name, error)

    work.host.call(f"end of the warm place {place.job_name}", "cancel_trial_job",
                   lambda: service.cancel_trial_job(place.job_name), lambda _: None, failed)
