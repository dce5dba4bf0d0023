"""A step of a full round: where an experiment finds no room, running trials of lower priority are frozen for it.

They wait with the target PREEMPTED and go on when there is room. Two things may leave no room: a limit of this server
(a quota, the cluster's), which is known exactly, and the platform itself, which says why a trial waits in its queue.

Which running trials are frozen is decided by what that costs: the time since their last checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max, Q

from nniweb.experiments.lifecycle.transitions import set_targets
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialEvent
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.quotas.quota_limits import Holder
from nniweb.experiments.quotas.starting_trials import full_limit
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.worker.cluster_host.fair_share import STARTING, FairShares
from nniweb.worker.cluster_host.log_words import trials_in_words
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.placing.no_room import NO_ROOM, SCHEDULERS_NO_ROOM
from nniweb.worker.rounds.work_counts import WorkCounts
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: A trial waits so long on its platform before others are frozen for it.
PATIENCE = timedelta(seconds=3)
#: Seconds until further ones are frozen for a trial that still waits: the platform needs a while to see the room.
AGAIN_AFTER = 60.0
#: Seconds until trials that were frozen for others on a platform are tried again, and the most. Each try that finds no
#: room doubles them.
BACK_AFTER, BACK_AFTER_AT_MOST = 30.0, 600.0
#: Seconds that such a try may wait in the queue of a platform that starts trials itself.
TRY_WAITS = 15.0
#: Those of platforms whose queue is this server's own: a trial that leaves it loses nothing.
_OWN_QUEUE = frozenset({"gpu_held", "machines_busy", "machine_full", "machine_kept", "gpu_taken", "machine_share_held",
                        "nodes_busy"})


@dataclass(frozen=True)
class _Running:
    """An attempt under way whose trial may be frozen."""

    trial: int
    sequence_id: int
    experiment: int
    priority: int
    gpus: int
    #: Identity of its machine, "" where the platform has none.
    machine: str
    #: Whether it has begun: one that has not costs nothing, and frees nothing on the platform.
    has_begun: bool
    #: Seconds of work that are lost.
    cost: float


def preempt(work: ClusterWork, experiments: Sequence[Experiment], found: Mapping[int, WorkCounts]) -> None:
    """Freeze what is in the way of more urgent experiments. No question where all have the same priority."""
    known = work.precedence
    searching = [one for one in experiments if one.status in STARTING]
    if len({one.priority for one in searching}) < 2 or work.service is None:
        known.waits = None
        known.made_room.clear()
        return
    urgent = sorted(searching, key=lambda one: -one.priority)
    lowest = urgent[-1].priority
    known.made_room = {}
    waiting = _waiting_on_platform(work, lowest)
    known.waits = max((priority for _, _, priority, _ in waiting), default=None)
    for experiment in urgent:
        if experiment.priority > lowest and experiment.target == ExperimentTarget.RUN \
                and experiment.cluster_id == work.cluster_pk:
            _for_a_limit(work, experiment, found[experiment.pk])
    if waiting:
        _for_the_platform(work, waiting)
    _give_up_places_in_queue(work, searching)


def thaw_preempted(work: ClusterWork, experiment: Experiment, most: int) -> int:
    """Have at most so many of its trials go on that were frozen for others, unless others still wait. How many do."""
    if most <= 0 or not _may_come_back(work, experiment):
        return 0
    trials = list(Trial.objects.unfinished().without_attempt().filter(
        experiment=experiment, target=TrialTarget.PREEMPTED).order_by("sequence_id").only("pk", "sequence_id")[:most])
    with work.lease.transaction():
        thawed = set_targets(trials, TrialTarget.RUN, work.now(), revision=next_revision(experiment.pk),
                             reason=Reason("free_slot"))
    if thawed:
        logger.info("there is room again for %s", trials_in_words([one.sequence_id for one in thawed]))
    return len(thawed)


def staying_away(work: ClusterWork) -> set[int]:
    """Experiments (primary keys) whose frozen trials are tried again later: their platform had no room for them."""
    now = work.monotonic()
    return {pk for pk, (due, _) in work.precedence.back_at.items() if now < due}


def _may_come_back(work: ClusterWork, experiment: Experiment) -> bool:
    """Whether its frozen trials may go on now, where there is room for them."""
    waits = work.precedence.waits
    return (waits is None or waits <= experiment.priority) and experiment.pk not in staying_away(work)


# --- who waits -------------------------------------------------------------------------------


def _waiting_on_platform(work: ClusterWork, lowest: int) -> list[tuple[int, int, int, int]]:
    """Trial, experiment (primary keys), priority and GPUs of those that the platform has no room for."""
    rows = Attempt.objects.under_way().filter(
        cluster=work.cluster_pk, trial__experiment__priority__gt=lowest, journal_id="",
        stage=Attempt.Stage.SUBMITTED, submitted_at__lte=work.now() - PATIENCE,
        trial__status=TrialJobStatus.WAITING.value, trial__target=TrialTarget.RUN,
        trial__reason__in=NO_ROOM).order_by("-trial__experiment__priority", "pk").values_list(
            "trial", "trial__experiment", "trial__experiment__priority", "trial__experiment__gpus_of_a_trial",
            "trial__reason", "trial__reason_arguments")
    return [(trial, experiment, priority, gpus) for trial, experiment, priority, gpus, reason, arguments in rows
            if reason != "scheduler" or (arguments or {}).get("cause") in SCHEDULERS_NO_ROOM]


def _for_a_limit(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """Freeze trials in its favour that use up a limit of this server."""
    shares = work.shares = work.shares or FairShares.of_round(experiment.cluster, staying_away(work))
    holder = shares.under_way.get(experiment.pk) or Holder.of(experiment)
    back = found.preempted if _may_come_back(work, experiment) else 0
    wanted = min(experiment.trial_concurrency - found.under_way, found.waiting + back + _still_to_ask(experiment))
    if wanted <= 0:
        return
    limit = full_limit(holder, shares.limits, shares.under_way)
    if limit is None:
        return
    concerned = {one.pk for one in shares.under_way.values() if limit.concerns(one)}
    being_freed = list(Attempt.objects.under_way().filter(
        trial__experiment__in=concerned, trial__target=TrialTarget.PREEMPTED).values_list(
            "trial__experiment", flat=True))
    missing = wanted * limit.cost(holder) - sum(limit.cost(shares.under_way[pk]) for pk in being_freed)
    chosen: list[_Running] = []
    for one in _cheapest(_lower(Q(trial__experiment__in=concerned), experiment.priority, work.now())):
        if missing <= 0:
            break
        chosen.append(one)
        missing -= limit.cost(shares.under_way[one.experiment])
    _freeze(work, chosen, experiment.priority)
    if made_room := len(being_freed) + len(chosen):
        work.precedence.made_room[experiment.pk] = made_room


def _still_to_ask(experiment: Experiment) -> int:
    if experiment.status != ExperimentStatus.RUNNING:
        return 0
    most = experiment.max_trial_number
    return experiment.trial_concurrency if most is None else max(0, most - experiment.next_sequence_id)


def _for_the_platform(work: ClusterWork, waiting: Sequence[tuple[int, int, int, int]]) -> None:
    """Freeze as many trials as wait, and take those of lower priority out of the platform's queue."""
    known, now = work.precedence, work.monotonic()
    here = {trial for trial, *_ in waiting}
    known.again_at = {trial: at for trial, at in known.again_at.items() if trial in here}
    left = _lower(Q(cluster=work.cluster_pk), max(priority for _, _, priority, _ in waiting),
                  work.now())
    for trial, experiment, priority, gpus in waiting:
        if now < known.again_at.get(trial, now):
            continue
        lower = [one for one in left if one.priority < priority]
        queued = [one for one in lower if not one.has_begun]
        chosen = _that_free(gpus, [one for one in lower if one.has_begun])
        if not queued and not chosen:
            continue
        known.again_at[trial] = now + AGAIN_AFTER
        left = [one for one in left if one not in queued and one not in chosen]
        _freeze(work, [*queued, *chosen], priority)
        _stay_away(work, {one.experiment for one in (*queued, *chosen)})
        if chosen:
            with work.lease.transaction():
                next_revision(experiment, needs_round=False)
                TrialEvent.objects.create(trial_id=trial, at=work.now(), kind="preempting", message=str(Reason(
                    "preempting", count=len(chosen), said="The platform has no room for the trial.")))


def _that_free(gpus: int, running: Sequence[_Running]) -> list[_Running]:
    """The cheapest of these that make room for a trial with so many GPUs, on one machine; [] where none do."""
    candidates = [one for one in _cheapest(running) if one.gpus or not gpus]
    if gpus <= 1:
        return candidates[:1]
    by_machine: dict[str, list[_Running]] = defaultdict(list)
    for one in candidates:
        by_machine[one.machine].append(one)
    best: list[_Running] = []
    for some in by_machine.values():
        chosen: list[_Running] = []
        for one in some:
            if sum(each.gpus for each in chosen) < gpus:
                chosen.append(one)
        if sum(each.gpus for each in chosen) >= gpus and (not best or _cost(chosen) < _cost(best)):
            best = chosen
    return best


def _give_up_places_in_queue(work: ClusterWork, searching: Sequence[Experiment]) -> None:
    """Of platforms whose queue is this server's own: trials that find no room beside more urgent experiments leave it.

    Else they would get the place that an urgent trial leaves before its experiment has the next one.
    """
    highest = max(one.priority for one in searching)
    rows = Attempt.objects.under_way().filter(
        trial__experiment__in=[one.pk for one in searching if one.priority < highest], journal_id="",
        stage=Attempt.Stage.SUBMITTED, submitted_at__lte=work.now() - timedelta(seconds=TRY_WAITS),
        trial__status=TrialJobStatus.WAITING.value, trial__target=TrialTarget.RUN,
        trial__reason__in=_OWN_QUEUE).values_list("trial", "trial__sequence_id", "trial__experiment",
                                                  "trial__experiment__priority")
    queued = [_Running(trial, sequence_id, experiment, priority, 0, "", False, 0.0)
              for trial, sequence_id, experiment, priority in rows]
    _freeze(work, queued, highest)
    _stay_away(work, {one.experiment for one in queued})


def _stay_away(work: ClusterWork, experiments: Collection[int]) -> None:
    """Their trials are tried again after a while, each time after a longer one."""
    now = work.monotonic()
    for pk in experiments:
        at, pause = work.precedence.back_at.get(pk, (0.0, BACK_AFTER / 2))
        if now >= at:
            pause = BACK_AFTER if now > at + 2 * BACK_AFTER_AT_MOST else min(2 * pause, BACK_AFTER_AT_MOST)
            work.precedence.back_at[pk] = (now + pause, pause)


# --- who gives way ---------------------------------------------------------------------------


def _lower(of: Q, priority: int, now: datetime) -> list[_Running]:
    """What may be frozen of these attempts for an experiment of this priority. One question."""
    saved = Max("trial__checkpoints__confirmed_at", filter=Q(
        trial__checkpoints__confirmed_at__isnull=False, trial__checkpoints__removed_at=None))
    rows = Attempt.objects.under_way().filter(
        of, trial__experiment__priority__lt=priority, stage=Attempt.Stage.SUBMITTED,
        trial__target=TrialTarget.RUN, trial__status__in=[
            TrialJobStatus.WAITING.value, TrialJobStatus.RUNNING.value]).values(
        "trial", "trial__sequence_id", "trial__experiment", "trial__experiment__priority", "machine_identity",
        "trial__experiment__gpus_of_a_trial", "trial__experiment__config__preemptible", "journal_id", "trial__status",
        "started_at", "created_at").annotate(saved_at=saved)
    return [one for one in (_running(row, now) for row in rows) if one is not None]


def _running(row: Mapping[str, Any], now: datetime) -> _Running | None:
    """None where it may not be frozen."""
    has_begun = bool(row["journal_id"]) or row["trial__status"] != TrialJobStatus.WAITING
    allowed = row["trial__experiment__config__preemptible"] or "checkpoints"
    if allowed == "never" or has_begun and allowed == "checkpoints" and row["saved_at"] is None:
        return None
    began = row["started_at"] or row["created_at"]
    since = max(began, row["saved_at"]) if row["saved_at"] is not None else began
    return _Running(row["trial"], row["trial__sequence_id"], row["trial__experiment"],
                    row["trial__experiment__priority"], row["trial__experiment__gpus_of_a_trial"],
                    row["machine_identity"], has_begun,
                    max(0.0, (now - since).total_seconds()) if has_begun else 0.0)


def _cheapest(running: Iterable[_Running]) -> list[_Running]:
    return sorted(running, key=lambda one: (one.has_begun, one.cost, one.priority))


def _cost(running: Iterable[_Running]) -> float:
    return sum(one.cost for one in running)


def _freeze(work: ClusterWork, chosen: Sequence[_Running], priority: int) -> None:
    by_experiment: dict[int, list[_Running]] = defaultdict(list)
    for one in chosen:
        by_experiment[one.experiment].append(one)
    for experiment, some in sorted(by_experiment.items()):
        with work.lease.transaction():
            set_targets(Trial.objects.filter(pk__in=[one.trial for one in some]).only("pk"), TrialTarget.PREEMPTED,
                        work.now(), revision=next_revision(experiment), reason=Reason("gave_way", priority=priority))
        logger.info("%s of experiment %d give way to priority %d", trials_in_words(
            [one.sequence_id for one in some]), experiment, priority)
