"""Trials of an experiment that runs on several clusters: where they start, and which ones leave a cluster again.

Called by the rounds of the experiment's home. A trial leaves a cluster only where it has certainly not begun: nobody
has asked the platform to run it, or the cluster's own worker takes its job back and says that it never ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from nniweb.experiments.clusters.placement import ClusterRoom, Placement, how_many, place
from nniweb.experiments.lifecycle.cluster_use import why_unusable
from nniweb.experiments.lifecycle.transitions import end_attempt, set_targets
from nniweb.experiments.lifecycle.trial_end import frozen
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, Trial
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.quotas.starting_trials import Room
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.cluster_host.log_words import trials_in_words
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.placing.cluster_rooms import rooms_of
from nniweb.worker.rounds.placing.no_room import NO_ROOM
from nniweb.worker.rounds.submissions import claim_never_handed_over, was_never_handed_over
from trainingservice.reasons import Reason, as_document, code_of
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

logger = ExperimentLogger(__name__)

#: Trials that have not begun leave a cluster that cannot be used for so long, in seconds. One that takes none any more
#: is left at once.
LEAVE_AFTER = 15.0
#: Seconds between two looks for trials that should leave their cluster.
LOOK_SECONDS = 2.0
#: A trial that its platform has taken and that does not say why it waits may be about to begin for so long.
BEGINS_WITHIN = timedelta(seconds=5)
#: Trials leave the queue of a cluster without room after this time, once each, where another cluster has room.
WAITS_AT_MOST = timedelta(seconds=30)
#: Codes of clusters that are left at once: a person wants no trials there, or the platform takes none.
_LEFT_AT_ONCE = frozenset({"drained", "not_listed", "no_weight", "refused_there"})
#: Codes of clusters that nobody drives.
_WITHOUT_WORKER = frozenset({"no_worker_there", "disabled_there"})


@dataclass
class Starts:
    """Which of some trials start, in order, and where. ``reason``: what the others wait for."""

    count: int
    reason: str = ""
    placements: list[Placement] = field(default_factory=list)

    def of(self, trials: Sequence[Trial]) -> Mapping[int, Placement]:
        """Where these start, by primary key; {} on the experiment's only cluster."""
        return {trial.pk: placement for trial, placement in zip(trials, self.placements, strict=False)}


def room_on_clusters(work: ClusterWork, experiment: Experiment, room: Room) -> Room:
    """``room`` as far as the experiment's clusters have any. On its only cluster the platform says for itself."""
    if not experiment.several_clusters or room.count <= 0:
        return room
    rooms = rooms_of(experiment, work.now())
    count = how_many(rooms, room.count)
    if count == room.count:
        return room
    return Room(count, _why_none(rooms))


def starts(work: ClusterWork, experiment: Experiment, room: Room, trials: Sequence[Trial] = ()) -> Starts:
    """Find places for as many trials as quotas have ``room`` for. ``trials``: those that exist, the first to start
    first. Inside the transaction that starts them.
    """
    if not experiment.several_clusters:
        return Starts(room.count, room.reason)
    if room.count <= 0:
        return Starts(0, room.reason)
    ran_on = _ran_on(trials) if trials else {}
    busy = _hold_limited_clusters(experiment)
    rooms = rooms_of(experiment, work.now())
    for one in rooms:
        if one.cluster in busy:
            one.room, one.why_full = 0, busy[one.cluster]
    placements = place(rooms,
                       [ran_on.get(trials[index].pk) if index < len(trials) else None for index in range(room.count)])
    placed = [one for one in placements if one.cluster is not None]
    if len(placed) < len(placements):
        room = Room(len(placed), placements[-1].reason)
    _note_used(experiment, placed, work)
    return Starts(len(placed), room.reason, placed)


def _why_none(rooms: Sequence[ClusterRoom]) -> Reason:
    """What they say to one more trial than they have room for."""
    full = [ClusterRoom(one.cluster, one.name, room=0, why_not=one.why_not,
                        why_full=one.why_full or Reason("at_most_there", most=one.under_way + (one.room or 0)))
            for one in rooms]
    return place(full, [None])[0].reason


def _hold_limited_clusters(experiment: Experiment) -> dict[int, Reason]:
    """Whoever else starts trials on clusters with a limit waits for the end of this transaction, and sees them.

    Those on which somebody else does so now are returned, with what is said of them; they are not waited for.
    """
    limited = {pk: row.cluster.max_trials for pk, row in rows_by_cluster(experiment).items()
               if row.cluster.max_trials is not None}
    held = set(Cluster.objects.select_for_update(skip_locked=True).filter(pk__in=limited).values_list("pk", flat=True)
               ) if limited else set()
    return {pk: Reason("limit_there", most=most) for pk, most in limited.items() if pk not in held}


def _ran_on(trials: Sequence[Trial]) -> dict[int, int | None]:
    """Trial -> the cluster of its last attempt that had begun (primary keys)."""
    return dict(Attempt.objects.filter(trial__in=trials, started_at__isnull=False).order_by("number").values_list(
        "trial", "cluster"))


def _note_used(experiment: Experiment, placed: Sequence[Placement], work: ClusterWork) -> None:
    rows = rows_by_cluster(experiment)
    for pk in {one.cluster for one in placed if one.cluster is not None}:
        if rows[pk].used_at is None:
            rows[pk].used_at = work.now()
            ExperimentCluster.objects.filter(pk=rows[pk].pk, used_at=None).update(used_at=work.now())


# --- leaving a cluster -------------------------------------------------------------------------


def leave_clusters(work: ClusterWork, experiment: Experiment) -> None:
    """Have trials that have not begun leave clusters that cannot run them, or have no room for long."""
    now = work.monotonic()
    if now < work.next_leaving.get(experiment.pk, now):
        return
    work.next_leaving[experiment.pk] = now + LOOK_SECONDS
    _leave_unusable_clusters(work, experiment)
    _leave_full_clusters(work, experiment)


def _leave_unusable_clusters(work: ClusterWork, experiment: Experiment) -> None:
    unusable = why_unusable(experiment)
    now = work.monotonic()
    mine = rows_by_cluster(experiment).keys()
    work.unusable_since = {pk: since for pk, since in work.unusable_since.items() if pk not in mine or pk in unusable}
    if mine <= unusable.keys():
        return
    for pk, why in unusable.items():
        since = work.unusable_since.setdefault(pk, now)
        if now - since >= LEAVE_AFTER or code_of(why) in _LEFT_AT_ONCE:
            _leave(work, experiment, pk, why)


def _leave(work: ClusterWork, experiment: Experiment, cluster_pk: int, why: str) -> None:
    unstarted = list(Attempt.objects.under_way().filter(
        trial__experiment=experiment, cluster=cluster_pk, journal_id="", started_at=None, trial__target=TrialTarget.RUN,
        trial__status=TrialJobStatus.WAITING.value).select_related("trial").order_by("pk"))
    if not unstarted or code_of(why) in _WITHOUT_WORKER and not any(map(was_never_handed_over, unstarted)):
        return
    reason = Reason("moves", cluster=rows_by_cluster(experiment)[cluster_pk].cluster.name, said=_sentence(why),
                    because=as_document(why))
    with work.lease.transaction():
        revision = next_revision(experiment.pk)
        at_once = [attempt for attempt in unstarted if was_never_handed_over(attempt)
                   and claim_never_handed_over(attempt)]
        for attempt in at_once:
            end_attempt(attempt, frozen(TrialTarget.PREEMPTED, reason, contract.FROZEN), work.now(), revision=revision)
        # the others are taken back by the worker of their cluster; without it nobody knows whether they have begun
        taken_back = [] if code_of(why) in _WITHOUT_WORKER else \
            [attempt for attempt in unstarted if attempt not in at_once and _surely_waits(attempt, work)]
        set_targets([attempt.trial for attempt in taken_back], TrialTarget.PREEMPTED, work.now(), revision=revision,
                    reason=reason)
    if leaving := [attempt.trial.sequence_id for attempt in (*at_once, *taken_back)]:
        logger.info("%s: placed anew, because of the cluster %s: %s", trials_in_words(leaving),
                    reason.arguments["cluster"], why)


def _surely_waits(attempt: Attempt, work: ClusterWork) -> bool:
    """Whether it is not just beginning: the word of its keeper takes a moment to come."""
    return attempt.stage == Attempt.Stage.SUBMITTED and (attempt.trial.reason in NO_ROOM or (
        attempt.submitted_at is not None and work.now() - attempt.submitted_at >= BEGINS_WITHIN))


def _leave_full_clusters(work: ClusterWork, experiment: Experiment) -> None:
    """Once each, and where another cluster has room."""
    rooms = rooms_of(experiment, work.now())
    full = {one.cluster for one in rooms if code_of(one.why_full) == "waits_there" and not one.why_not}
    if not full:
        return
    waiting = list(Attempt.objects.under_way().filter(
        trial__experiment=experiment, cluster__in=full, number=1, journal_id="", started_at=None,
        stage=Attempt.Stage.SUBMITTED, submitted_at__lte=work.now() - WAITS_AT_MOST, trial__target=TrialTarget.RUN,
        trial__status=TrialJobStatus.WAITING.value, trial__reason__in=NO_ROOM).select_related("trial").order_by("pk"))
    waiting = waiting[:how_many([one for one in rooms if one.cluster not in full], len(waiting))]
    if not waiting:
        return
    names = {pk: row.cluster.name for pk, row in rows_by_cluster(experiment).items()}
    with work.lease.transaction():
        revision = next_revision(experiment.pk)
        for attempt in waiting:
            set_targets([attempt.trial], TrialTarget.PREEMPTED, work.now(), revision=revision, reason=Reason(
                "moves", cluster=names[attempt.cluster_id or 0], said=attempt.trial.message))


def _sentence(why: str) -> str:
    return f"{str(why)[:1].upper()}{str(why)[1:]}"
