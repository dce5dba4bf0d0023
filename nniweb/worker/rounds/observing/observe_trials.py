"""First step of a round: what the platform says of its jobs goes into the rows.

The keeper's own word is better and comes through ``ingest``. A platform's end is therefore only
an observation: the attempt ends with the keeper's ``ended``, or after the drain time.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice

from django.db.models import Q

from nniweb.experiments.lifecycle.cluster_records import end_of_refused
from nniweb.experiments.lifecycle.heartbeats import LONGEST, missed_after
from nniweb.experiments.lifecycle.platform_times import began_at, duration, ended_at
from nniweb.experiments.lifecycle.reason_columns import reason_of, said_by_platform
from nniweb.experiments.lifecycle.retries import REFUSED
from nniweb.experiments.lifecycle.transitions import (
    add_cause,
    attempt_interrupted,
    attempt_requeued,
    attempt_started,
    attempt_suspended,
    end_attempt,
    move_trial,
    set_targets,
)
from nniweb.experiments.lifecycle.trial_end import UNTOLD, completed, is_held, observation, observed_by_platform
from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.changed_rows import IfNone, update
from nniweb.experiments.sql.selected_rows import places, select
from nniweb.worker.cluster_host.service_answers import job_detail, job_details
from nniweb.worker.rounds import warm_places
from nniweb.worker.rounds.cluster_work import ClusterWork, Drain, Listed
from nniweb.worker.rounds.observing.differing_jobs import (
    differs,
    facts,
    has_been_suspended,
    known_jobs,
    says_what_is_not_known,
    says_why_it_waits,
    tags_of,
    was_interrupted,
)
from nniweb.worker.rounds.observing.without_keepers import FINAL_RESULT_SECONDS, end_lost_jobs, has_final, with_final
from trainingservice.base import TrainingService
from trainingservice.errors import UnknownTrialJob
from trainingservice.reasons import Reason
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: How long the keeper's last report is waited for after the platform said that the job ended, in seconds; longer where
#: the keeper was asked to report less often.
DRAIN_SECONDS = 60.0
#: The same of a trial that was to be stopped and whose keeper, which must call, never has.
DRAIN_SECONDS_UNHEARD = 5.0
#: A job that could not be asked about, nor was heard of, for so long is shown as UNKNOWN: twice as long as any keeper
#: may be quiet.
UNKNOWN_AFTER = max(timedelta(minutes=5), 2 * missed_after(int(LONGEST), 0.0))
#: All jobs are looked at so often, in seconds; in between only those that rang.
FULL_LOOK_SECONDS = 30.0
#: The same where no keeper reports: NNI's services are asked, they do not ring.
FULL_LOOK_SECONDS_WITHOUT_KEEPERS = 1.0
#: maxTrialDuration is enforced by the keeper; if it has not done so after this, the worker does.
TIME_LIMIT_GRACE = 30.0
#: Details handled in one transaction: bounds how long other writers wait.
CHUNK = 100
#: Jobs whose rows are read with one statement.
READ_AT_ONCE = 500
#: Of a look at all jobs, each round has at least so many, or so many parts: a round comes at least each second.
LOOKED_AT_ONCE, ROUNDS_OF_A_LOOK = 2000, 25


def observe_trials(work: ClusterWork) -> None:
    """Write down what the platform says of its jobs, and end attempts whose drain time is over."""
    _load_drains(work)
    service = work.service
    if service is not None:
        changed = work.host.changed_jobs()
        try:
            _look(work, service, changed)
        except BaseException:
            work.host.look_again_at(changed)  # nothing of it is lost where it could not be written
            raise
    _finish_drains(work)


def write_down(work: ClusterWork, detail: TrialJobDetail) -> None:
    """What the platform has just said of one job, asked because somebody wanted it."""
    _apply(work, [detail])


def _look(work: ClusterWork, service: TrainingService, changed: Collection[str]) -> None:
    """Look at all jobs, where that is due, and at those that rang."""
    now = work.monotonic()
    rang = [detail for name in changed if (detail := detail_of(work, service, name)) is not None]
    is_new = work.listed is None and now >= work.next_full_look
    if is_new:
        details: Sequence[TrialJobDetail] = work.host.ask(
            "list_trial_jobs", lambda: job_details(service.list_trial_jobs()), [])
        work.listed = Listed(now, deque(detail for detail in details if detail.id not in work.settled),
                             {detail.id for detail in details})
    try:
        _look_at_some(work, service, rang, is_new)
    except BaseException:
        if is_new:  # what it says, and does not name, may be old by the time at which it can be written
            work.listed = None
        raise


def _look_at_some(work: ClusterWork, service: TrainingService, rang: Sequence[TrialJobDetail], is_new: bool) -> None:
    work.metrics.store()  # what was emitted before a job was shown as ended is there before its end
    for start in range(0, len(rang), CHUNK):
        _apply(work, rang[start: start + CHUNK])
    listed = work.listed
    if listed is None:
        return
    _look_at_listed(work, service, listed, {detail.id for detail in rang}, is_new)
    if listed.left:
        return
    work.host.faults.pop("get_trial_job", None)  # nothing rings any more of what it failed on, perhaps
    _show_silence(work)
    _enforce_time_limits(work)
    work.drains_loaded = False
    if not service.keepers_report and "list_trial_jobs" not in work.host.faults:
        end_lost_jobs(work, service, listed.names)
    # only now: a look that could not be written is taken again
    work.next_full_look = listed.at + (
        FULL_LOOK_SECONDS if service.keepers_report else FULL_LOOK_SECONDS_WITHOUT_KEEPERS)
    work.listed = None


def _look_at_listed(work: ClusterWork, service: TrainingService, listed: Listed, rang: Collection[str],
                    is_new: bool) -> None:
    """Look at some of the jobs that were listed, in this round or an earlier one. So in a large cluster a stop does not
    wait until all were looked at, and the processor is not busy with them for seconds.

    ``rang``: jobs that were looked at just now. ``is_new``: they were listed in this round.
    """
    most = max(LOOKED_AT_ONCE, math.ceil(listed.count / ROUNDS_OF_A_LOOK)) if service.keepers_report else listed.count
    for start in range(0, min(most, len(listed.left)), READ_AT_ONCE):
        there = list(islice(listed.left, min(READ_AT_ONCE, most - start)))
        details: Iterable[TrialJobDetail | None] = there
        if not is_new:  # it may say something else meanwhile
            details = (detail_of(work, service, detail.id) for detail in there)
        _apply(work, [detail for detail in details if detail is not None and detail.id not in rang])
        for _ in there:  # only now: what could not be written is tried again
            listed.left.popleft()


def detail_of(work: ClusterWork, service: TrainingService, name: str) -> TrialJobDetail | None:
    """What the platform says of a job now; None where it does not know it, or cannot be asked."""
    try:
        return work.host.ask("get_trial_job", lambda: job_detail(service.get_trial_job(name)), None)
    except UnknownTrialJob:
        return None


#: Of the many columns, those that each look needs.
_OF_ATTEMPT = ("id", "trial", "number", "job_name", "stage", "journal_id", "observed_end", "unseen_since", "url",
               "machine_name", "working_directory", "interpreter", "interpreter_version", "platform_state", "heard_at",
               "report_within", "tags", "created_at", "end_reason")
_OF_TRIAL = ("id", "experiment", "status", "target", "message", "reason", "reason_arguments")


def _apply(work: ClusterWork, details: Sequence[TrialJobDetail]) -> None:
    with_guests, ended = warm_places.with_guests(work, details)
    _apply_all(work, with_guests, {place.job_name for place in ended})
    warm_places.close_ended(ended)


def _apply_all(work: ClusterWork, details: Iterable[TrialJobDetail], places: Collection[str]) -> None:
    """``places``: jobs of warm places that have ended, which are forgotten in a later look, when that is written."""
    by_name = {detail.id: detail for detail in details}
    known, now = known_jobs(list(by_name)), work.now()
    early = {job.job_name for job in known if job.attempt_pk in work.submitting}
    work.host.look_again_at(early)  # what their submission returns says it too, and is written down first
    ended = [name for name, detail in by_name.items() if detail.status.is_end]
    differing = [job.job_name for job in known
                 if not by_name[job.job_name].status.is_end and differs(job, by_name[job.job_name], now)]
    attempts = _looked_at([*ended, *differing], [name for name, detail in by_name.items() if detail.cause])
    _forget_settled(work, by_name, {job.job_name for job in known} | {attempt.job_name for attempt in attempts}
                    | set(places))
    due = [(attempt, by_name[attempt.job_name]) for attempt in attempts if attempt.job_name not in early
           and not (by_name[attempt.job_name].status.is_end and attempt.observed_end is not None
                    and not is_held(attempt))]
    for start in range(0, len(due), CHUNK):
        _write_all(work, due[start: start + CHUNK])


def _write_all(work: ClusterWork, due: Sequence[tuple[Attempt, TrialJobDetail]]) -> None:
    by_experiment: dict[int, list[tuple[Attempt, TrialJobDetail]]] = defaultdict(list)
    for attempt, detail in due:
        by_experiment[attempt.trial.experiment_id].append((attempt, detail))
    with work.lease.transaction():
        for experiment_pk, pairs in sorted(by_experiment.items(), key=lambda item: item[0]):
            ends = any(detail.status.is_end for _, detail in pairs)
            revision = next_revision(experiment_pk, needs_round=ends)
            for attempt, detail in pairs:
                _write(work, attempt, detail, revision)


def _forget_settled(work: ClusterWork, by_name: Mapping[str, TrialJobDetail], open_names: Collection[str]) -> None:
    """Let the platform's object forget the jobs that have ended by its word and by the rows, where nothing is open."""
    settled = [name for name, detail in by_name.items() if detail.status.is_end and name not in open_names]
    if settled and (service := work.service) is not None:
        work.host.ask("forget_trial_jobs", lambda: service.forget_trial_jobs(settled), None)
        work.stops_sent.difference_update(settled)
        if not service.keepers_report:
            work.settled.update(settled)


def _looked_at(job_names: Sequence[str], explained: Sequence[str]) -> list[Attempt]:
    """Attempts of these names that have not ended, with their trials; what mostly is heard of is the end of a trial
    that its keeper has told. By hand: each trial asks.

    ``explained``: those that the platform knows better why they ended, even where they have by their keeper's word.
    """
    if not job_names:
        return []
    condition, values = f"stage <> '{Attempt.Stage.ENDED.value}'", list(job_names)
    if explained:
        condition = f"({condition} OR observed_end IS NULL AND job_name IN {places(explained)})"
        values += explained
    attempts = select(Attempt, _OF_ATTEMPT, f"WHERE job_name IN {places(job_names)} AND {condition}", values)
    if attempts:
        keys = [attempt.trial_id for attempt in attempts]
        trials = {trial.pk: trial for trial in select(Trial, _OF_TRIAL, f"WHERE id IN {places(keys)}", keys)}
        for attempt in attempts:
            attempt.trial = trials[attempt.trial_id]
    return attempts


def _note_tags(attempt: Attempt, detail: TrialJobDetail, revision: int) -> None:
    """Add to the trial's tags what the platform has not said before: what a person took away stays away."""
    tags = tags_of(detail)
    new = [tag for tag in tags if tag not in attempt.tags]
    Attempt.objects.filter(pk=attempt.pk).update(tags=tags)
    if new:
        trial = Trial.objects.only("tags").get(pk=attempt.trial_id)
        Trial.objects.filter(pk=trial.pk).update(tags=list(dict.fromkeys([*trial.tags, *new])), revision=revision)


def _write(work: ClusterWork, attempt: Attempt, detail: TrialJobDetail, revision: int) -> None:
    now = work.now()
    status = detail.status
    if status is TrialJobStatus.UNKNOWN:
        Attempt.objects.filter(pk=attempt.pk, unseen_since=None).update(unseen_since=now)
        if says_what_is_not_known(attempt.trial.status, attempt.trial.message, detail):
            Trial.objects.filter(pk=attempt.trial_id, status=attempt.trial.status).update(
                revision=revision, **said_by_platform(detail.message))
        return
    update(Attempt, "id = %s", [attempt.pk], unseen_since=None, platform_state=detail.platform_state, **facts(detail))
    if attempt.tags != tags_of(detail):
        _note_tags(attempt, detail, revision)
    if status.is_end:
        _note_end(work, attempt, detail, revision)
    elif status is TrialJobStatus.RUNNING:
        if attempt.trial.status != TrialJobStatus.RUNNING:
            attempt_started(attempt, began_at(detail.start_time, attempt, now), revision=revision, by_keeper=False,
                            target=attempt.trial.target)
    elif has_been_suspended(attempt.journal_id, detail):
        now_said = detail_of(work, work.service, attempt.job_name) if work.service is not None else None
        if now_said is not None and now_said.suspended:  # else its next run may have begun meanwhile
            attempt_suspended(attempt, now, revision=revision, message=detail.message)
    elif was_interrupted(attempt.journal_id, attempt.trial.status, detail):
        now_said = detail_of(work, work.service, attempt.job_name) if work.service is not None else None
        if now_said is not None and now_said.interrupted:  # else its next run may have begun meanwhile
            attempt_interrupted(attempt, now, revision=revision, message=detail.message)
    elif attempt.trial.status == TrialJobStatus.RUNNING and not attempt.journal_id:
        attempt_requeued(attempt, now, revision=revision,
                         message=detail.message or Reason("requeued"))
    elif attempt.trial.status == TrialJobStatus.UNKNOWN:
        move_trial(attempt.trial_id, TrialJobStatus.WAITING, now, revision=revision, message=detail.message)
    elif attempt.trial.status == TrialJobStatus.WAITING \
            and says_why_it_waits(attempt.stage, attempt.trial.target, detail):
        Trial.objects.filter(pk=attempt.trial_id, status=TrialJobStatus.WAITING.value).update(
            revision=revision, **said_by_platform(detail.message))


def _note_end(work: ClusterWork, attempt: Attempt, detail: TrialJobDetail, revision: int) -> None:
    """Write the observed end; where no keeper ever reported it is the end, else its last word is waited for."""
    observed = observation(detail)
    if not (work.keepers_report or attempt.journal_id) and detail.exit_code is not None:
        observed["reason"] = contract.EXITED  # of its command: its service ran that itself
    if is_held(attempt):
        attempt.observed_end = completed(attempt.observed_end or {}, observed)
        _end_as_observed(work, attempt, revision, is_told=True)
        return
    Attempt.objects.filter(pk=attempt.pk, observed_end__isnull=True).update(
        observed_end=observed, observed_end_at=work.now())
    attempt.observed_end = observed
    if Attempt.objects.filter(pk=attempt.pk, stage=Attempt.Stage.ENDED).exists():  # its keeper was faster
        if detail.cause:
            add_cause(attempt, detail.cause, revision=revision)
        return
    drain = _drain(work, attempt, detail)
    if drain is None:
        _end_as_observed(work, attempt, revision)
    else:
        work.draining.setdefault(attempt.pk, drain)


def _drain(work: ClusterWork, attempt: Attempt, detail: TrialJobDetail) -> Drain | None:
    """How long more of a trial is waited for whose job has ended; None: nothing is to come."""
    now = work.monotonic()
    if attempt.journal_id:
        return Drain(now + _drain_seconds(attempt.report_within), attempt.heard_at)
    if not work.keepers_report:
        waits = detail.status is TrialJobStatus.SUCCEEDED and not has_final(attempt)
        return Drain(now + FINAL_RESULT_SECONDS, attempt.heard_at, until_final=True) if waits else None
    if detail.start_time is None:
        return None
    return Drain(now + (DRAIN_SECONDS_UNHEARD if _was_stopped_unheard(work, attempt) else DRAIN_SECONDS),
                 attempt.heard_at)


def _drain_seconds(report_within: int | None) -> float:
    """How long the last word of a keeper is waited for that has spoken: one that lives has reported by then."""
    return missed_after(report_within, DRAIN_SECONDS).total_seconds()


def _was_stopped_unheard(work: ClusterWork, attempt: Attempt) -> bool:
    """Whether hardly anything is to come of an attempt whose job has ended: its keeper had no way to this server."""
    service = work.service
    return attempt.heard_at is None and not attempt.journal_id and attempt.trial.target != TrialTarget.RUN \
        and service is not None and (service.needs_public_url and service.settings.keepers_call_home()
                                     or service.settings.must_call_home())


def _load_drains(work: ClusterWork) -> None:
    """Ends that are not yet final: those seen before a take-over, whose drain time begins anew, and those that a
    keeper told and that wait for the platform's word."""
    if work.drains_loaded:
        return
    for pk, heard_at, journal_id, within in Attempt.objects.under_way().filter(
            cluster=work.cluster_pk, observed_end__isnull=False).values_list(
            "pk", "heard_at", "journal_id", "report_within"):
        without_keeper = not (work.keepers_report or journal_id)
        drain = Drain(work.monotonic() + (FINAL_RESULT_SECONDS if without_keeper else _drain_seconds(within)),
                      heard_at, until_final=without_keeper)
        if pk not in work.draining or drain.until_final and not work.draining[pk].until_final:
            work.draining[pk] = drain
    work.drains_loaded = True


def _finish_drains(work: ClusterWork) -> None:
    """End attempts whose drain time is over without a word from the keeper."""
    over = {pk for pk, drain in work.draining.items() if work.monotonic() >= drain.deadline}
    if until_final := {pk for pk, drain in work.draining.items() if drain.until_final} - over:
        over |= with_final(until_final)
    if not over:
        return
    # an end that was seen and could not be written is none: it is seen again
    for attempt in Attempt.objects.filter(pk__in=over, observed_end__isnull=False).exclude(
            stage=Attempt.Stage.ENDED).select_related("trial"):
        if attempt.heard_at != work.draining[attempt.pk].heard_at or _goes_on(work, attempt):
            # its keeper still speaks, or the next one will: let it finish
            work.draining[attempt.pk] = Drain(work.monotonic() + _drain_seconds(attempt.report_within),
                                              attempt.heard_at)
            over.remove(attempt.pk)
            continue
        with work.lease.transaction():
            _end_as_observed(work, attempt, next_revision(attempt.trial.experiment_id), is_told=is_held(attempt))
    for pk in over:
        work.draining.pop(pk, None)


def _goes_on(work: ClusterWork, attempt: Attempt) -> bool:
    """Whether a keeper was stopped by a platform that still has its job, and runs it again."""
    service = work.service
    if service is None or not service.continues_jobs or not is_held(attempt):
        return False
    detail = detail_of(work, service, attempt.job_name)
    return detail is not None and not detail.status.is_end


def _end_as_observed(work: ClusterWork, attempt: Attempt, revision: int, *, is_told: bool = False) -> None:
    """``is_told``: its keeper told the end, too, so that all of its output is here."""
    observed, now = attempt.observed_end or {}, work.now()
    end = observed_by_platform(observed, attempt.trial.target, reason_of(attempt.trial),
                               attempt.end_reason == contract.FROZEN)
    if end.status is TrialJobStatus.FAILED and end.reason == REFUSED and not attempt.journal_id:
        end = end_of_refused(attempt, end.message)
    at = ended_at(observed, attempt, now)
    if end.duration is None:
        end = replace(end, duration=duration(observed, attempt, at))
    if end.duration is not None and attempt.started_at is None:
        began = at - timedelta(seconds=end.duration)
        update(Attempt, "id = %s", [attempt.pk], started_at=IfNone(began))
        update(Trial, "id = %s", [attempt.trial_id], started_at=IfNone(began))
    if end_attempt(attempt, end, at, revision=revision) and work.keepers_report and not is_told:
        Attempt.objects.filter(pk=attempt.pk).update(observed_end={**observed, UNTOLD: True})


def _show_silence(work: ClusterWork) -> None:
    """Trials nobody could ask about for a while are UNKNOWN, unless their keepers were heard."""
    limit = work.now() - UNKNOWN_AFTER
    silent = Attempt.objects.under_way().filter(
        Q(heard_at=None) | Q(heard_at__lt=limit), cluster=work.cluster_pk, unseen_since__lt=limit,
        trial__status__in=[TrialJobStatus.WAITING.value, TrialJobStatus.RUNNING.value]).select_related("trial")
    for attempt in silent[:CHUNK]:
        said = detail_of(work, work.service, attempt.job_name) if work.service is not None else None
        own_words = said.message if said is not None and said.status is TrialJobStatus.UNKNOWN else ""
        with work.lease.transaction():
            move_trial(attempt.trial_id, TrialJobStatus.UNKNOWN, work.now(),
                       revision=next_revision(attempt.trial.experiment_id),
                       message=own_words or Reason("not_answering"))


def _enforce_time_limits(work: ClusterWork) -> None:
    """Early-stop trials that ran well past maxTrialDuration although their keeper should have ended them.

    Counted from when this worker first saw the trial running, by the clock that does not jump: an hour put forward
    must end nothing.
    """
    running = [attempt.trial for attempt in Attempt.objects.under_way().filter(
        cluster=work.cluster_pk, trial__experiment__max_trial_duration__isnull=False, trial__target=TrialTarget.RUN,
        trial__started_at__isnull=False).exclude(trial__status=TrialJobStatus.WAITING.value).select_related(
            "trial__experiment")]
    now = work.monotonic()
    grace = TIME_LIMIT_GRACE if work.keepers_report else 0.0
    work.seen_running = {trial.pk: work.seen_running.get(trial.pk, now) for trial in running}
    for trial in running:
        limit = trial.experiment.max_trial_duration
        if limit is not None and now - work.seen_running[trial.pk] > limit + grace:
            with work.lease.transaction():
                set_targets([trial], TrialTarget.EARLY_STOPPED, work.now(),
                               revision=next_revision(trial.experiment_id),
                               reason=Reason("time_limit"))
