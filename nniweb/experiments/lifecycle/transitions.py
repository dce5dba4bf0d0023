"""The one place that writes statuses.

A move is an UPDATE whose WHERE names the statuses it may come from. One row: it happened, the
event is written and the bell rings on commit. No row: somebody was first, which is normal; the
first end wins and an end is final. Every function here runs inside its caller's transaction.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.utils import timezone

from nniweb.experiments.budgets.attempt_costs import charged_to
from nniweb.experiments.budgets.concerned import is_limited
from nniweb.experiments.budgets.ledger import charge
from nniweb.experiments.lifecycle.cluster_records import note_platform_failure
from nniweb.experiments.lifecycle.reason_columns import failed_because, reason_of, said, said_by_platform
from nniweb.experiments.lifecycle.retries import ON_PLATFORM_FAILURE, SUSPENDED, kind_of_failure, retries_left
from nniweb.experiments.lifecycle.trial_end import TrialEnd, release, told_duration, why_it_waits, with_cause
from nniweb.experiments.memory.memory_failures import memory_columns
from nniweb.experiments.models import (
    Attempt,
    Experiment,
    ExperimentCluster,
    ExperimentEvent,
    MetricNumber,
    Trial,
    TrialEvent,
    User,
)
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.trial import RESTS, RESULTS, STOPS, TrialTarget, job_name
from nniweb.experiments.notifications import outbox
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.results.running_time import COUNTED, running_seconds
from nniweb.experiments.sql.changed_rows import IfNone, update
from nniweb.experiments.sql.exact_text import printable
from nniweb.experiments.sql.new_rows import insert
from trainingservice.reasons import Reason, because_of, code_of
from trainingservice.trial_job_status import TrialJobStatus, sources_of


def move_trial(trial_pk: int, status: TrialJobStatus, at: datetime, *, revision: int, message: str | None = None,
               actor: User | None = None, **fields: Any) -> bool:
    """Move one trial; True if it happened. ``message`` None leaves the old one."""
    if status is TrialJobStatus.FAILED:
        fields |= failed_because(message or "")
    elif message is not None:
        fields |= said(message)
    if status.is_end:
        fields["ended_at"] = at
    elif status is TrialJobStatus.RUNNING:
        fields["started_at"] = IfNone(at)
    moved = update(Trial, _may_move_to(status), [trial_pk], status=status.value, revision=revision, **fields)
    if moved:
        insert([TrialEvent(trial_id=trial_pk, at=at, kind=status.value, actor=actor,
                           message=fields.get("message", ""))])
        if status.value in RESULTS:
            outbox.trial_has_result(trial_pk, at)
    return bool(moved)


@cache
def _may_move_to(status: TrialJobStatus) -> str:
    """Condition (SQL) of one trial by its key."""
    sources = ", ".join(f"'{source.value}'" for source in sorted(sources_of(status)))
    return f"id = %s AND status IN ({sources})"


def end_unsubmitted(trial_pks: Collection[int], status: TrialJobStatus, at: datetime, *, revision: int, message: str,
                    actor: User | None = None) -> None:
    """End those of these trials that were never submitted: nobody else will."""
    waiting = Trial.objects.filter(pk__in=trial_pks, status__in=[source.value for source in sources_of(status)],
                                   attempts=None)
    pks = list(waiting.values_list("pk", flat=True))
    if not pks:
        return
    why = failed_because(message) if status is TrialJobStatus.FAILED else said(message)
    Trial.objects.filter(pk__in=pks).update(status=status.value, revision=revision, ended_at=at, **why)
    TrialEvent.objects.bulk_create(
        TrialEvent(trial_id=pk, at=at, kind=status.value, actor=actor, message=printable(message)) for pk in pks)


#: target -> what may have been wanted before
_WISHES_BEFORE: dict[TrialTarget, tuple[TrialTarget, ...]] = {
    TrialTarget.RUN: tuple(RESTS),
    TrialTarget.PREEMPTED: (TrialTarget.RUN,),
    TrialTarget.HELD: (TrialTarget.RUN, TrialTarget.PREEMPTED),
    TrialTarget.FROZEN: (TrialTarget.RUN, TrialTarget.PREEMPTED, TrialTarget.HELD),
    **dict.fromkeys(STOPS, (TrialTarget.RUN, *RESTS))}
#: Kinds of events of the history.
_WISHES = {TrialTarget.RUN: "thawed", **dict.fromkeys(RESTS, "to be frozen")}


def set_targets(trials: Iterable[Trial], target: TrialTarget, at: datetime, *, revision: int, reason: str,
                   actor: User | None = None) -> list[Trial]:
    """Write what is wanted of unfinished trials (all of one experiment), and why; the first wish to stop stands.

    Returns those of them that it was written for. Four statements, however many they are.
    """
    by_key = {trial.pk: trial for trial in trials}
    before = _WISHES_BEFORE[target]
    open_to_wishes = Trial.objects.unfinished().filter(pk__in=by_key, target__in=before)
    possible = list(open_to_wishes.values_list("pk", flat=True))
    if not possible:
        return []
    Trial.objects.unfinished().filter(pk__in=possible, target__in=before).update(
        target=target, revision=revision, **said(reason))
    # one that ended in between kept its revision
    changed = list(Trial.objects.filter(pk__in=possible, target=target, revision=revision).values_list("pk", flat=True))
    TrialEvent.objects.bulk_create(
        TrialEvent(trial_id=pk, at=at, kind=_WISHES.get(target, f"wanted {target}"), message=printable(reason),
                   actor=actor)
        for pk in changed)
    return [by_key[pk] for pk in changed]


def attempt_started(attempt: Attempt, at: datetime, *, revision: int, by_keeper: bool, target: str) -> None:
    """The trial's command is running (or about to, within milliseconds).

    ``by_keeper``: who started it says when. Before that counts when it was seen on the platform. ``target``: what is
    wanted of the trial; why it is wanted stopped or frozen stays.
    """
    update(Attempt, "id = %s" if by_keeper else "id = %s AND started_at IS NULL", [attempt.pk], started_at=at)
    moved = move_trial(attempt.trial_id, TrialJobStatus.RUNNING, at, revision=revision,
                       message="" if target == TrialTarget.RUN else None)
    if by_keeper and not moved:
        update(Trial, "id = %s AND status = 'RUNNING'", [attempt.trial_id], started_at=at, revision=revision)


def attempt_requeued(attempt: Attempt, at: datetime, *, revision: int, message: str) -> None:
    """The platform took the job back into its queue."""
    Attempt.objects.filter(pk=attempt.pk).update(started_at=None)
    move_trial(attempt.trial_id, TrialJobStatus.WAITING, at, revision=revision, message=message)


def attempt_interrupted(attempt: Attempt, at: datetime, *, revision: int, message: str) -> None:
    """The platform ended a run of the job and runs it again: the attempt goes on, and its trial waits meanwhile."""
    move_trial(attempt.trial_id, TrialJobStatus.WAITING, at, revision=revision, message=message)


def attempt_continued(attempt: Attempt, at: datetime, *, revision: int) -> None:
    """The next run of the job goes on with the same journal: that something ended the last run is no end of the trial.
    """
    release(attempt.pk)
    move_trial(attempt.trial_id, TrialJobStatus.RUNNING, at, revision=revision, message="")


def attempt_suspended(attempt: Attempt, at: datetime, *, revision: int, message: str) -> None:
    """The platform ended a run and will run the same job anew: that run is an attempt of its own.

    What the old one reported stays with it. The job's name goes to the new one, and with it the tokens that the job
    holds. A trial that is wanted stopped is left alone: its job is being removed.
    """
    trial, now = Trial.objects.get(pk=attempt.trial_id), timezone.now()
    duration = told_duration(Attempt.objects.values_list("observed_end", flat=True).get(pk=attempt.pk))
    if trial.target != TrialTarget.RUN or not Attempt.objects.filter(pk=attempt.pk).exclude(
            stage=Attempt.Stage.ENDED).update(
            stage=Attempt.Stage.ENDED, job_name=f"{trial.public_id}s{attempt.number}", ended_at=at,
            end_received_at=now, end_reason=SUSPENDED, duration=duration):
        return
    charge(attempt.pk, duration=duration, by_keeper=duration is not None, ended_at=at, now=now)
    Attempt.objects.create(
        trial=trial, number=attempt.number + 1, job_name=attempt.job_name, stage=Attempt.Stage.SUBMITTED,
        cluster_id=attempt.cluster_id, placement=attempt.placement,
        charged_owner_id=attempt.charged_owner_id, charged_group_id=attempt.charged_group_id,
        charged_gpus=attempt.charged_gpus, charged_cpus=attempt.charged_cpus,
        token_hashes=attempt.token_hashes, platform_state=attempt.platform_state, url=attempt.url, created_at=at,
        submitted_at=attempt.submitted_at)
    _wait_for_attempt(trial.pk, message, revision)
    TrialEvent.objects.create(trial=trial, at=at, kind="suspended", message=printable(message))


def _wait_for_attempt(trial_pk: int, message: str, revision: int) -> int:
    """The trial waits for its next attempt, unless it is wanted stopped (0 then).

    Its figures are those of its last attempt, so they begin anew; the results of its parameter sets, where it may ask
    for several, were told to the tuner and stay.
    """
    waiting = Trial.objects.unfinished().filter(pk=trial_pk, target__in=[TrialTarget.RUN, *RESTS])
    waiting.filter(experiment__multi_phase=False).update(final_value=None, final_number=None)
    waits = waiting.update(
        status=TrialJobStatus.WAITING.value, started_at=None,
        intermediate_count=0, latest_number=None, revision=revision, **said_by_platform(message))
    if waits:
        MetricNumber.objects.filter(trial=trial_pk).delete()
    return waits


def end_attempt(attempt: Attempt, end: TrialEnd, at: datetime, *, revision: int) -> bool:
    """End an attempt, free its GPUs (they are held while it is unfinished) and end its trial with it.

    Where the end is WAITING, or the experiment's ``retry`` grants another attempt, the trial waits for that instead.
    False where the attempt had ended before; then nothing is changed. What the attempt took is put into the ledger.
    """
    now = timezone.now()
    if not update(Attempt, "id = %s AND stage <> %s", [attempt.pk, Attempt.Stage.ENDED.value],
                  stage=Attempt.Stage.ENDED.value, ended_at=at, end_received_at=now, exit_code=end.exit_code,
                  end_reason=end.reason, duration=end.duration, **memory_columns(attempt, end.message)):
        return False
    charge(attempt.pk, duration=end.duration, by_keeper=end.by_keeper, ended_at=at, now=now)
    if end.status is TrialJobStatus.WAITING:
        message = end.message
        if code_of(message) == "free_slot":  # thawed by now; the experiment may have been paused since it was frozen
            message = why_it_waits(Experiment.objects.values_list("status", flat=True).get(trials=attempt.trial_id))
        if _wait_for_attempt(attempt.trial_id, message, revision):
            kind = "placed anew" if code_of(message) == "moves" else "frozen"
            insert([TrialEvent(trial_id=attempt.trial_id, at=at, kind=kind, message=printable(message))])
        return True
    if kind_of_failure(end.status, end.reason) == ON_PLATFORM_FAILURE:
        note_platform_failure(attempt, now)
    again = retries_left(attempt, end.status, end.reason, end.message)
    if again is None or not _try_again(attempt, at, revision=revision, message=Reason(
            "tried_again", said=str(end.message), number=again[0], most=again[1], **because_of(end.message))):
        move_trial(attempt.trial_id, end.status, at, revision=revision, message=end.message)
    return True


def add_cause(attempt: Attempt, cause: str, *, revision: int) -> None:
    """What the platform said of an end only after the keeper had told it: put before the trial's message.

    Of an attempt that is followed by another one the trial's history tells it.
    """
    trial = Trial.objects.get(pk=attempt.trial_id)
    message = with_cause(TrialJobStatus(trial.status), reason_of(trial), trial.target, cause)
    if Attempt.objects.filter(trial=trial, number__gt=attempt.number).exists():
        TrialEvent.objects.create(trial=trial, at=timezone.now(), kind="the platform says", message=printable(cause))
    elif message != trial.message:
        why = failed_because(message) if trial.status == TrialJobStatus.FAILED else said(message)
        Trial.objects.filter(pk=trial.pk, message=trial.message).update(revision=revision, **why)
        TrialEvent.objects.create(trial=trial, at=timezone.now(), kind="the platform says", message=printable(cause))


def _try_again(attempt: Attempt, at: datetime, *, revision: int, message: str) -> bool:
    """Have the trial wait for its next attempt; False where it is not wanted any more."""
    trial = Trial.objects.select_related("experiment").only(
        "public_id", "token", "experiment__several_clusters", "experiment__cluster", "experiment__owner",
        "experiment__group", "experiment__token", "experiment__status").get(pk=attempt.trial_id)
    is_paused = trial.experiment.status == ExperimentStatus.PAUSED
    if not _wait_for_attempt(attempt.trial_id, why_it_waits(trial.experiment.status) if is_paused else message,
                             revision):
        return False
    # with several clusters it is placed first, with a budget it starts as long as something is left of that, and in a
    # paused experiment an attempt would keep a place from others
    if not (is_paused or trial.experiment.several_clusters or is_limited(trial.experiment, trial.token_id)):
        number = attempt.number + 1
        Attempt.objects.create(trial=trial, number=number, job_name=job_name(trial.public_id, number), created_at=at,
                               cluster_id=trial.experiment.cluster_id, **charged_to(trial.experiment))
    TrialEvent.objects.create(trial=trial, at=at, kind="tried again", message=printable(message))
    return True


#: The worker looks at an ended experiment's jobs so long after its end: what the platform alone knows of the last end
#: comes a moment after the keeper's word. Less than the time for which a worker drives a cluster on.
JOBS_DUE_AFTER = timedelta(seconds=20)
#: Reasons of an end after which a custom tuner or assessor is told nothing more.
_TUNER_IS_BROKEN = frozenset({"tuner_failed", "tuner_died", "assessor_failed"})
#: experiment status -> where it may come from
_EXPERIMENT_SOURCES: dict[ExperimentStatus, tuple[ExperimentStatus, ...]] = {
    ExperimentStatus.RUNNING: (ExperimentStatus.INITIALIZED, ExperimentStatus.PAUSED, ExperimentStatus.NO_MORE_TRIAL,
                               ExperimentStatus.TUNER_NO_MORE_TRIAL, ExperimentStatus.DONE, ExperimentStatus.STOPPED,
                               ExperimentStatus.ERROR),
    ExperimentStatus.PAUSED: (ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING, ExperimentStatus.NO_MORE_TRIAL,
                              ExperimentStatus.TUNER_NO_MORE_TRIAL),
    ExperimentStatus.NO_MORE_TRIAL: (ExperimentStatus.RUNNING, ExperimentStatus.TUNER_NO_MORE_TRIAL),
    ExperimentStatus.TUNER_NO_MORE_TRIAL: (ExperimentStatus.RUNNING,),
    ExperimentStatus.DONE: (ExperimentStatus.NO_MORE_TRIAL, ExperimentStatus.TUNER_NO_MORE_TRIAL),
    ExperimentStatus.STOPPING: (ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING, ExperimentStatus.PAUSED,
                                ExperimentStatus.NO_MORE_TRIAL, ExperimentStatus.TUNER_NO_MORE_TRIAL),
    ExperimentStatus.STOPPED: (ExperimentStatus.STOPPING,),
    ExperimentStatus.ERROR: (ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING, ExperimentStatus.PAUSED,
                             ExperimentStatus.NO_MORE_TRIAL, ExperimentStatus.TUNER_NO_MORE_TRIAL),
}


def move_experiment(experiment: Experiment, status: ExperimentStatus, at: datetime, *, message: str = "",
                    actor: User | None = None) -> bool:
    """Move an experiment and keep the account of its running time; True if it happened.

    ``experiment`` is brought up to date with what was written.
    """
    was = ExperimentStatus(experiment.status)
    if was not in _EXPERIMENT_SOURCES.get(status, ()):
        return False
    fields: dict[str, Any] = {"status": status, **said(message)}
    if was in COUNTED and status not in COUNTED and experiment.running_since is not None:
        fields["running_seconds"] = running_seconds(experiment, at)
        fields["running_since"] = None
    elif status in COUNTED and (was not in COUNTED or experiment.running_since is None):
        fields["running_since"] = at
    if status == ExperimentStatus.RUNNING:
        fields["ended_at"] = None
        fields["started_at"] = experiment.started_at or at
        fields["jobs_due_at"] = fields["tuner_exit_tries"] = None
    if status in (ExperimentStatus.DONE, ExperimentStatus.STOPPED, ExperimentStatus.ERROR):
        fields["ended_at"] = at
        fields["jobs_due_at"] = at + JOBS_DUE_AFTER
        if (experiment.has_own_tuner or experiment.has_own_assessor) and fields["reason"] not in _TUNER_IS_BROKEN:
            fields["tuner_exit_tries"] = 1
    if not Experiment.objects.filter(pk=experiment.pk, status=was).update(**fields):
        return False
    for name, value in fields.items():
        setattr(experiment, name, value)
    if experiment.several_clusters and "jobs_due_at" in fields:
        ExperimentCluster.objects.filter(experiment=experiment, used_at__isnull=False).exclude(
            cluster=experiment.cluster_id).update(jobs_due_at=fields["jobs_due_at"])
    ExperimentEvent.objects.create(experiment=experiment, at=at, kind=status, message=fields["message"], actor=actor)
    outbox.experiment_ended(experiment, at)
    next_revision(experiment.pk)
    return True
