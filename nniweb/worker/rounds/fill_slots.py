"""Last step of a round: free slots are filled with waiting trials, then with new ones from the tuner.

Nothing is lost between two lines: a trial, its parameters, its attempt and the tuner's event are one
transaction, after which the attempt is handed over (``submissions``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import Max

from nniweb.experiments.budgets.starting import RoundBudgets, candidate_of, how_many_in_budget, why_not_in_budget
from nniweb.experiments.checkpoints.continued_trials import trials_of_proposals
from nniweb.experiments.earlier.start_from import note_agreements
from nniweb.experiments.launch.job_forms import first_parameters
from nniweb.experiments.lifecycle.reason_columns import said, said_by_platform, struck_reason
from nniweb.experiments.lifecycle.transitions import end_unsubmitted, move_experiment
from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialEvent, TrialParameters
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from nniweb.experiments.models.trial import TrialQuerySet, TrialTarget
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.quotas.leash_limits import why_full, within_leashes
from nniweb.experiments.quotas.starting_trials import Room
from nniweb.experiments.replicates.new_trials import make_replicates, replicates_to_start, with_proposals
from nniweb.experiments.results.replicates import is_raced, replicates_of_each
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.new_rows import insert
from nniweb.experiments.sql.selected_rows import select
from nniweb.observability.log_ids import ExperimentLogger
from nniweb.tuning.constraints.constraint import Constraint, first_broken, read_constraints
from nniweb.worker.cluster_host.fair_share import STARTING, FairShares, room_now
from nniweb.worker.cluster_host.log_words import trials_in_words
from nniweb.worker.cluster_host.tuner_sessions import Proposals
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.placing.placed_trials import Starts, leave_clusters, room_on_clusters, starts
from nniweb.worker.rounds.placing.waiting_trials import next_to_start, say_what_they_wait_for
from nniweb.worker.rounds.preemption import staying_away, thaw_preempted
from nniweb.worker.rounds.submissions import NewAttempts, submit_again
from nniweb.worker.rounds.telling.teach_tuner import CHUNK as TOLD_AT_ONCE
from nniweb.worker.rounds.trials_missing import or_no_trial, why_no_answer
from nniweb.worker.rounds.work_counts import WorkCounts
from trainingservice.reasons import Reason, because_of
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: Further replicates start in these: also where the tuner has no further parameters.
_REPEATING = (ExperimentStatus.RUNNING, ExperimentStatus.TUNER_NO_MORE_TRIAL)
#: New trials asked for and made in one go: keeps transactions short where concurrency is large.
MOST_AT_ONCE = 50


def fill_slots(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """Start as many trials as free slots, limits and quotas allow; say why where none starts."""
    if work.service is None and not experiment.several_clusters:
        _say_why_nothing_starts(work, experiment)
        return
    if experiment.status == ExperimentStatus.INITIALIZED and experiment.target == ExperimentTarget.RUN:
        with work.lease.transaction():
            move_experiment(experiment, ExperimentStatus.RUNNING, work.now())
    if experiment.status == ExperimentStatus.RUNNING:
        why_nothing_comes = why_no_answer(work, experiment, found)
        if experiment.message != why_nothing_comes:
            _set_message(work, experiment, why_nothing_comes)  # "": the platform is back, or the tuner has answered
    starts_trials = experiment.target == ExperimentTarget.RUN and experiment.status in STARTING
    if starts_trials:
        if experiment.several_clusters and found.under_way:
            leave_clusters(work, experiment)
        _start_what_may(work, experiment, found)
    if found.submitting > list(work.submitting.values()).count(experiment.pk):
        submit_again(work, experiment, starts_trials)


def submit_placed(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    """Hand over what the experiment's home has placed on this cluster."""
    if found.submitting > list(work.submitting.values()).count(experiment.pk):
        submit_again(work, experiment,
                     experiment.target == ExperimentTarget.RUN and experiment.status in STARTING)


def _start_what_may(work: ClusterWork, experiment: Experiment, found: WorkCounts) -> None:
    free = experiment.trial_concurrency - found.under_way
    if free <= 0:
        return
    if work.shares is None:
        work.shares = FairShares.of_round(experiment.cluster, staying_away(work))
    work.budgets = work.budgets or RoundBudgets(work.now())
    room = room_on_clusters(work, experiment, work.shares.room(experiment, free))
    if found.preempted:  # they go on before anything new is started
        _note_started(work, experiment, thaw_preempted(work, experiment, min(room.count, found.preempted)))
        return
    waits = work.precedence.waits
    if waits is not None and waits > experiment.priority:
        room = Room(0, Reason("gives_way", priority=waits))
    if room.reason and (count := work.precedence.made_room.get(experiment.pk)):
        room = Room(room.count, Reason("preempting", count=count, said=str(room.reason), **because_of(room.reason)))
    started, others, told = 0, _waiting(experiment), False
    if found.waiting:
        started, others, told = _start_waiting(work, experiment, min(room.count, _most_at_once(experiment)))
    new = work.budgets.room(experiment, room.count)
    more = min(room.count - started, new.count)
    if reason := new.reason or room.reason:
        # one trial may wait for room, so that it can say for what; more would be asked for before earlier results
        more += not (found.waiting and say_what_they_wait_for(work, experiment, others, reason) or told)
    more -= max(0, found.not_taught - TOLD_AT_ONCE)  # what is asked next shall follow from these results, too
    if experiment.has_replicates and experiment.status in _REPEATING and more > 0:
        more -= _start_replicates(work, experiment, more)
    if experiment.status == ExperimentStatus.RUNNING and more > 0 and not experiment.has_external_tuner:
        _ask(work, experiment, more)


def _most_at_once(experiment: Experiment) -> int:
    """So many for each of its clusters: each of their workers then hands over as many at once as one with a cluster."""
    return MOST_AT_ONCE * max(1, sum(row.takes_trials for row in rows_by_cluster(experiment).values()))


def _waiting(experiment: Experiment) -> TrialQuerySet:
    return Trial.objects.unfinished().without_attempt().filter(experiment=experiment, target=TrialTarget.RUN)


def _start_waiting(work: ClusterWork, experiment: Experiment, most: int) -> tuple[int, TrialQuerySet, bool]:
    """Trials people queued come first, in their order; and those that waited for room. How many start, the waiting ones
    that do not say yet what they wait for, and whether any waits for a budget.
    """
    waiting = _waiting(experiment)
    if most <= 0:
        return 0, waiting, False
    found = next_to_start(work, experiment, waiting, most)
    started = _start(work, experiment, found.trials) if found.trials else 0
    for token in found.full:
        say_what_they_wait_for(work, experiment, found.others.filter(token=token), why_full(token))
    return started, found.others.exclude(token__in=found.full), found.any_for_budget


def _start(work: ClusterWork, experiment: Experiment, trials: list[Trial]) -> int:
    """As many of these trials as leashes, quotas and budgets let start, now that they are held."""
    with work.lease.transaction():
        revision = next_revision(experiment.pk, needs_round=False)
        _read_again(experiment)
        if experiment.status not in STARTING or experiment.target != ExperimentTarget.RUN:
            return 0  # it was paused meanwhile, and its running trials may be frozen
        trials = within_leashes(trials, experiment)
        room, numbers = room_now(experiment, len(trials)), _next_numbers(trials)
        why_not = why_not_in_budget(experiment, [candidate_of(trial, trial.pk in numbers) for trial in trials],
                                    work.now())
        trials = [trial for trial, why in zip(trials, why_not, strict=True) if why is None]
        starting = starts(work, experiment, Room(min(room.count, len(trials)), room.reason), trials)
        trials = trials[:starting.count]
        Trial.objects.filter(pk__in=[trial.pk for trial in trials]).update(revision=revision, **said(""))
        attempts = _make_attempts(work, experiment, trials, numbers, starting)
    if not trials:
        return 0
    _note_started(work, experiment, len(trials))
    logger.info("slots are free for %s", trials_in_words([trial.sequence_id for trial in trials]))
    for trial in trials:
        trial.message, trial.experiment = "", experiment
    attempts.hand_over(work, first_parameters([trial.pk for trial in trials]))
    return len(trials)


def _note_started(work: ClusterWork, experiment: Experiment, number: int) -> None:
    if work.shares is not None:
        work.shares.started(experiment, number)


def _next_numbers(trials: Sequence[Trial]) -> dict[int, int]:
    """Of the attempts of those of these trials that had some, by primary key."""
    return {pk: latest + 1 for pk, latest in Attempt.objects.filter(trial__in=trials).values_list("trial").annotate(
        latest=Max("number")).order_by()}


def _make_attempts(work: ClusterWork, experiment: Experiment, trials: Sequence[Trial], numbers: Mapping[int, int],
                   starting: Starts) -> NewAttempts:
    attempts = NewAttempts(experiment, trials, work, numbers, starting.of(trials))
    attempts.create()
    return attempts


# --- new trials ------------------------------------------------------------------------------


def _ask(work: ClusterWork, experiment: Experiment, free: int) -> None:
    # without a race all replicates of a proposal follow its first one
    count = min(free if is_raced(experiment) else -(-free // replicates_of_each(experiment)), MOST_AT_ONCE)
    if experiment.max_trial_number is not None:
        count = min(count, experiment.max_trial_number - experiment.next_sequence_id)
    if count <= 0:
        return
    work.tuners.ask(experiment, experiment.next_ask, count,
                    lambda proposals: _make_trials(work, experiment, count, proposals))


def _make_trials(work: ClusterWork, experiment: Experiment, asked: int, proposals: Proposals) -> None:
    """The tuner, ``asked`` for so many, answered: its parameter sets become trials, as many as there is room for.

    ``experiment``: as the round that asked had it; what can have changed since is read again.
    """
    parameters, exhausted = proposals.parameters, proposals.exhausted
    if not parameters and not exhausted:
        return  # it needs results first; the next round asks again
    now = work.now()
    with work.lease.transaction():
        revision = next_revision(experiment.pk, needs_round=False)
        _read_again(experiment)
        if experiment.status != ExperimentStatus.RUNNING or experiment.target != ExperimentTarget.RUN:
            work.tuners.forget(experiment.pk)  # it counts these as asked: it is rebuilt from the events when needed
            return
        if experiment.max_trial_number is not None:
            room = max(0, experiment.max_trial_number - experiment.next_sequence_id)
            if room < len(parameters):
                parameters = parameters[:room]
                work.tuners.forget(experiment.pk)
        broken = [first_broken(read_constraints(experiment.constraints), value) for value in parameters]
        allowed = broken.count(None)
        by_quotas = _room_beside_replicates(experiment, allowed) if experiment.has_replicates \
            else room_now(experiment, allowed)
        may_start = starts(work, experiment, _in_budget(work, experiment, by_quotas))
        starting = _places_that_start(broken, may_start.count)
        first_ask, first_sequence = experiment.next_ask, experiment.next_sequence_id
        continues = _continued(experiment, proposals, len(parameters))
        trials = insert(with_proposals(experiment, [
            Trial(experiment=experiment, sequence_id=first_sequence + index, ask_number=first_ask + index,
                  created_at=now, revision=revision, feasible=False if experiment.outcome_constraints else None,
                  continues_id=continues[index][1] if index in continues else None,
                  **said("" if index in starting else may_start.reason))
            for index in range(len(parameters))], raced=is_raced(experiment),
            forbidden={index for index, constraint in enumerate(broken) if constraint is not None}))
        stored = insert(
            TrialParameters(trial=trial, index=0, parameter_id=trial.ask_number, value=value)
            for trial, value in zip(trials, parameters, strict=True))
        insert(TrialEvent(trial=trial, at=now, kind="created") for trial in trials)
        append_events(experiment, [{"event": "ask", "number": first_ask + index, "parameters": value,
                                    **({"asked": asked} if index == 0 and experiment.has_own_tuner else {}),
                                    **({"continues": continues[index][0]} if index in continues else {})}
                                   for index, value in enumerate(parameters)], now)
        note_agreements(experiment, proposals.agreements)
        _count_on(experiment, len(parameters))
        attempts = _make_attempts(work, experiment, [trials[index] for index in starting], {}, may_start)
        for trial, constraint in zip(trials, broken, strict=True):
            if constraint is not None:
                end_unsubmitted([trial.pk], TrialJobStatus.FAILED, now, revision=revision, message=Reason(
                    "constraint_broken", constraint=constraint.text, by="tuner"))
        if exhausted:
            move_experiment(experiment, ExperimentStatus.TUNER_NO_MORE_TRIAL, now,
                            message=or_no_trial(experiment, _exhausted(experiment)))
    _note_started(work, experiment, len(starting))
    work.tuners.recorded(experiment.pk, len(trials))
    if trials:
        logger.info("the tuner proposed %s", trials_in_words([trial.sequence_id for trial in trials]))
    if exhausted:
        logger.info("the tuner has no further parameters to try")
    attempts.hand_over(work, {row.trial_id: row for row in stored})
    at_limit = first_sequence + len(trials) == experiment.max_trial_number
    if refused := [trial.sequence_id for trial, one in zip(trials, broken, strict=True) if one is not None]:
        logger.warning("%s not run: the tuner proposed parameters that break a constraint", trials_in_words(refused))
    if exhausted or at_limit or refused or len(trials) >= MOST_AT_ONCE or experiment.has_replicates:
        doorbell.ring(experiment.pk)  # slots may still be free, or the experiment is at its limit


def _continued(experiment: Experiment, proposals: Proposals, count: int) -> dict[int, tuple[int, int]]:
    """Of the first so many: place -> the proposal that it goes on with, and its trial (primary key). In multi-phase
    experiments none does: a checkpoint of a trial with several parameter sets may be of any of them.
    """
    if experiment.multi_phase:
        return {}
    named = {place: number for place, number in enumerate(proposals.continues[:count]) if number is not None}
    trials = trials_of_proposals(experiment, named.values()) if named else {}
    return {place: (number, trials[number]) for place, number in named.items() if number in trials}


def _places_that_start(broken: Sequence[Constraint | None], most: int) -> list[int]:
    """Places of the first so many parameter sets that no constraint forbids."""
    return [place for place, constraint in enumerate(broken) if constraint is None][:most]


def _exhausted(experiment: Experiment) -> Reason:
    return Reason("tuner_exhausted", constraints=list(experiment.constraints)) if experiment.constraints else \
        Reason("tuner_exhausted")


# --- replicates ------------------------------------------------------------------------------


def _start_replicates(work: ClusterWork, experiment: Experiment, most: int) -> int:
    """Further replicates come before new proposals; how many were made."""
    most = min(most, MOST_AT_ONCE)
    if not replicates_to_start(experiment):
        return 0
    with work.lease.transaction():
        revision = next_revision(experiment.pk, needs_round=False)
        _read_again(experiment)
        if experiment.status not in _REPEATING or experiment.target != ExperimentTarget.RUN:
            return 0
        if experiment.max_trial_number is not None:
            most = min(most, experiment.max_trial_number - experiment.next_sequence_id)
        if most <= 0:
            return 0
        may_start = starts(work, experiment, _in_budget(work, experiment, room_now(experiment, most)))
        trials, starting, parameters = make_replicates(
            experiment, most, may_start.count, may_start.reason, work.now(), revision)
        attempts = _make_attempts(work, experiment, starting, {}, may_start)
    _note_started(work, experiment, len(starting))
    if trials:
        logger.info("further replicates are run as %s", trials_in_words([trial.sequence_id for trial in trials]))
        attempts.hand_over(work, parameters)
        doorbell.ring(experiment.pk)  # slots may still be free, or the experiment is at its limit
    return len(trials)


def _room_beside_replicates(experiment: Experiment, wanted: int) -> Room:
    """Room for new trials. The slots that the tuner was asked for may have gone to replicates since."""
    under_way = Attempt.objects.under_way().filter(trial__experiment=experiment).count()
    free = max(0, experiment.trial_concurrency - under_way)
    room = room_now(experiment, min(wanted, free))
    return room if room.count < min(wanted, free) else Room(room.count, Reason("free_slot"))


def _in_budget(work: ClusterWork, experiment: Experiment, room: Room) -> Room:
    """``room`` for new trials, as far as budgets have any."""
    count, why_not = how_many_in_budget(experiment, room.count, work.now())
    return room if count == room.count else Room(count, why_not)


#: What a change of the experiment, or the trials made since, may have given another value.
_MAY_HAVE_CHANGED = ("status", "target", "max_trial_number", "next_sequence_id", "next_ask", "max_trial_duration",
                     "trial_concurrency", "owner", "group", "token")


def _read_again(experiment: Experiment) -> None:
    """Bring the experiment up to date, inside the transaction that holds its row."""
    [now] = select(Experiment, ("id", *_MAY_HAVE_CHANGED), "WHERE id = %s", [experiment.pk])
    for name, value in vars(now).items():
        if name != "_state":  # all else is what was read
            setattr(experiment, name, value)


def _count_on(experiment: Experiment, count: int) -> None:
    """So many trials more have been made of parameters of the tuner."""
    experiment.next_sequence_id += count
    experiment.next_ask += count
    update(Experiment, "id = %s", [experiment.pk], next_sequence_id=experiment.next_sequence_id,
           next_ask=experiment.next_ask)


def _say_why_nothing_starts(work: ClusterWork, experiment: Experiment) -> None:
    message = struck_reason(work.host.message)
    if message and experiment.message != printable(message) and experiment.status in (
            ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING):
        _set_message(work, experiment, message)


def _set_message(work: ClusterWork, experiment: Experiment, message: str) -> None:
    with work.lease.transaction():
        next_revision(experiment.pk)
        Experiment.objects.filter(pk=experiment.pk).update(**said_by_platform(message))
    experiment.message = printable(message)
