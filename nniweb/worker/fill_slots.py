"""Last step of a round: free slots are filled with waiting trials, then with new ones from the tuner.

Nothing is lost between two lines: a trial, its parameters and the tuner's event are one
transaction; an attempt is committed as "submitting" before the platform is called, and submitting
it once more is harmless.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef

from nniweb.experiments.exact_text import printable
from nniweb.experiments.job_forms import application_form, keeper_access
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialEvent, TrialParameters
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.retries import REFUSED
from nniweb.experiments.revisions import next_revision
from nniweb.experiments.transitions import end_attempt, move_experiment
from nniweb.experiments.tuner_events import append_events
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.observability.masking import struck_out
from nniweb.worker.cluster_work import ClusterWork
from nniweb.worker.log_words import trials_in_words
from nniweb.worker.shares import STARTING, Shares, room_now
from trainingservice.base import TrainingService
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: New trials asked for and made in one go: keeps transactions short where concurrency is large.
MOST_AT_ONCE = 50
#: How a trial begins to say that its experiment keeps it waiting.
HELD = "The experiment is"
#: Pauses before an attempt is submitted again, in seconds.
RETRY_PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)


def fill_slots(work: ClusterWork, experiment: Experiment) -> None:
    if work.service is None:
        _say_why_nothing_starts(work, experiment)
        return
    if experiment.status == ExperimentStatus.INITIALIZED and experiment.target == ExperimentTarget.RUN:
        with work.lease.transaction():
            move_experiment(experiment, ExperimentStatus.RUNNING, work.now())
    if experiment.status == ExperimentStatus.RUNNING and experiment.message:
        _set_message(work, experiment, "")  # the platform is back
    starts = experiment.target == ExperimentTarget.RUN and experiment.status in STARTING
    if starts:
        _start_what_may(work, experiment)
    _submit(work, experiment, starts)


def _start_what_may(work: ClusterWork, experiment: Experiment) -> None:
    free = experiment.trial_concurrency - _occupied(experiment)
    if free <= 0:
        return
    if work.shares is None:
        work.shares = Shares.of_round(experiment.cluster)
    room = work.shares.room(experiment, free)
    started = _start_waiting(work, experiment, min(room.count, MOST_AT_ONCE))
    more = room.count - started
    if room.reason:
        # one trial may wait for room, so that it can say for what; more would be asked for before earlier results
        more += not _say_what_they_wait_for(work, experiment, room.reason)
    if experiment.status == ExperimentStatus.RUNNING and more > 0:
        # one that ended since the step before: what is asked next shall follow from its result, too
        more -= Trial.objects.not_taught().filter(experiment=experiment).count()
        if more > 0:
            _ask(work, experiment, more)


def _say_what_they_wait_for(work: ClusterWork, experiment: Experiment, reason: str) -> bool:
    """Have the trials that wait say so. Whether there are any."""
    messages = set(_waiting(experiment).values_list("message", flat=True).distinct())
    if messages - {reason}:
        with work.lease.transaction():
            pks = list(_waiting(experiment).exclude(message=reason).values_list("pk", flat=True))
            Trial.objects.filter(pk__in=pks).update(message=reason, revision=next_revision(experiment.pk))
    return bool(messages)


def _occupied(experiment: Experiment) -> int:
    """Slots in use: trials that were given to the platform, or are about to be."""
    return Attempt.objects.filter(trial__in=Trial.objects.unfinished().filter(experiment=experiment)).exclude(
        stage=Attempt.Stage.ENDED).count()


def _waiting(experiment: Experiment) -> Any:
    return Trial.objects.unfinished().filter(
        ~Exists(Attempt.objects.filter(trial=OuterRef("pk"))), experiment=experiment, target=TrialTarget.RUN)


def _start_waiting(work: ClusterWork, experiment: Experiment, most: int) -> int:
    """Trials people queued come first, in their order; and those that waited for room."""
    if most <= 0:
        return 0
    trials = list(_waiting(experiment).order_by("sequence_id")[:most])
    if trials:
        with work.lease.transaction():
            revision = next_revision(experiment.pk)
            trials = trials[:room_now(experiment, len(trials)).count]
            Trial.objects.filter(pk__in=[trial.pk for trial in trials]).update(message="", revision=revision)
            _make_attempts(work, trials)
        _note_started(work, experiment, len(trials))
    if trials:
        logger.info("slots are free for %s", trials_in_words([trial.sequence_id for trial in trials]))
    return len(trials)


def _note_started(work: ClusterWork, experiment: Experiment, number: int) -> None:
    if work.shares is not None:
        work.shares.started(experiment, number)


def _make_attempts(work: ClusterWork, trials: Sequence[Trial]) -> None:
    now = work.now()
    Attempt.objects.bulk_create(
        Attempt(trial=trial, number=1, job_name=trial.public_id, created_at=now) for trial in trials)


# --- new trials ------------------------------------------------------------------------------


def _ask(work: ClusterWork, experiment: Experiment, free: int) -> None:
    count = min(free, MOST_AT_ONCE)
    if experiment.max_trial_number is not None:
        count = min(count, experiment.max_trial_number - experiment.next_sequence_id)
    if count <= 0:
        return
    work.tuners.ask(experiment, experiment.next_ask, count,
                    lambda parameters, exhausted: _make_trials(work, experiment.pk, parameters, exhausted))


def _make_trials(work: ClusterWork, experiment_pk: int, parameters: list[dict[str, Any]], exhausted: bool) -> None:
    """The tuner answered: its parameter sets become trials, as many as there is still room for."""
    if not parameters and not exhausted:
        return  # it needs results first; the next round asks again
    now = work.now()
    with work.lease.transaction():
        revision = next_revision(experiment_pk)
        experiment = Experiment.objects.defer("config", "config_text").select_related("cluster").get(pk=experiment_pk)
        if experiment.status != ExperimentStatus.RUNNING or experiment.target != ExperimentTarget.RUN:
            work.tuners.forget(experiment_pk)  # it counts these as asked: it is rebuilt from the events when needed
            return
        if experiment.max_trial_number is not None:
            room = max(0, experiment.max_trial_number - experiment.next_sequence_id)
            if room < len(parameters):
                parameters = parameters[:room]
                work.tuners.forget(experiment_pk)
        may_start = room_now(experiment, len(parameters))
        first_ask, first_sequence = experiment.next_ask, experiment.next_sequence_id
        trials = Trial.objects.bulk_create(
            Trial(experiment=experiment, sequence_id=first_sequence + index, ask_number=first_ask + index,
                  created_at=now, revision=revision, message="" if index < may_start.count else may_start.reason)
            for index in range(len(parameters)))
        TrialParameters.objects.bulk_create(
            TrialParameters(trial=trial, index=0, parameter_id=trial.ask_number, value=value)
            for trial, value in zip(trials, parameters, strict=True))
        TrialEvent.objects.bulk_create(TrialEvent(trial=trial, at=now, kind="created") for trial in trials)
        append_events(experiment, [{"event": "ask", "number": first_ask + index, "parameters": value}
                                   for index, value in enumerate(parameters)], now)
        Experiment.objects.filter(pk=experiment_pk).update(
            next_sequence_id=first_sequence + len(parameters), next_ask=first_ask + len(parameters))
        _make_attempts(work, trials[:may_start.count])
        if exhausted:
            move_experiment(experiment, ExperimentStatus.TUNER_NO_MORE_TRIAL, now,
                            message="The tuner has no further parameters to try.")
    _note_started(work, experiment, min(may_start.count, len(trials)))
    work.tuners.recorded(experiment_pk, len(trials))
    if trials:
        logger.info("the tuner proposed %s", trials_in_words([trial.sequence_id for trial in trials]))
    if exhausted:
        logger.info("the tuner has no further parameters to try")


# --- submitting --------------------------------------------------------------------------------


def _submit(work: ClusterWork, experiment: Experiment, starts: bool) -> None:
    """Hand over what is committed as submitting and is not on its way already.

    Where the experiment starts nothing now, only what is known to have started: handing that over once more lets the
    platform's object find it again. The rest waits, and says for what.
    """
    service = work.service
    if service is None:
        return
    now = work.monotonic()
    due = [attempt for attempt in Attempt.objects.filter(
        trial__in=Trial.objects.unfinished().filter(experiment=experiment, target=TrialTarget.RUN),
        stage=Attempt.Stage.SUBMITTING).select_related("trial__experiment__code").prefetch_related(
        "trial__parameter_sets").order_by("pk")
        if attempt.pk not in work.submitting and now >= work.not_before.get(attempt.pk, 0.0)]
    if not starts:
        held = [attempt for attempt in due if not _has_started(attempt)]
        _say_that_they_wait(work, experiment, held)
        due = [attempt for attempt in due if _has_started(attempt)]
    if not due:
        return
    tokens = {attempt.pk: secrets.token_urlsafe(32) for attempt in due}
    with work.lease.transaction():
        for attempt in due:  # the running job of an earlier submission may hold the older token: none is removed
            attempt.token_hashes = [*attempt.token_hashes, hash_of(tokens[attempt.pk])]
        Attempt.objects.bulk_update(due, ["token_hashes"])
        if waited := [attempt.trial_id for attempt in due if attempt.trial.message.startswith(HELD)]:
            Trial.objects.filter(pk__in=waited, message__startswith=HELD).update(
                message="", revision=next_revision(experiment.pk))
    for attempt in due:
        _hand_over(work, service, attempt, tokens[attempt.pk])


def _has_started(attempt: Attempt) -> bool:
    return bool(attempt.journal_id) or attempt.trial.status == TrialJobStatus.RUNNING


def _say_that_they_wait(work: ClusterWork, experiment: Experiment, attempts: Sequence[Attempt]) -> None:
    message = f"{HELD} {experiment.status}; it is submitted when the experiment is resumed."
    silent = [attempt.trial_id for attempt in attempts if attempt.trial.message != message]
    if silent:
        with work.lease.transaction():
            revision = next_revision(experiment.pk)
            Trial.objects.filter(pk__in=silent, status=TrialJobStatus.WAITING.value, target=TrialTarget.RUN).update(
                message=message, revision=revision)


def _hand_over(work: ClusterWork, service: TrainingService, attempt: Attempt, token: str) -> None:
    work.submitting.add(attempt.pk)
    try:
        form = application_form(attempt, type(service), keeper_access(attempt.trial.experiment, type(service), token))
    except Exception as error:  # options that no longer fit, a lost archive: this trial's fault alone
        _refused(work, attempt, f"It cannot be submitted: {error}")
        return
    work.host.call(f"submission of trial {attempt.trial.sequence_id}", lambda: _call_submit(service, form),
                   lambda detail: _submitted(work, attempt, detail), lambda error: _not_submitted(work, attempt, error))


def _call_submit(service: TrainingService, form: JobApplicationForm) -> TrialJobDetail:
    with log_ids(experiment=form.experiment_id, trial=form.trial_job_id):
        return service.submit_trial_job(form)


def _submitted(work: ClusterWork, attempt: Attempt, detail: TrialJobDetail) -> None:
    work.submitting.discard(attempt.pk)
    work.not_before.pop(attempt.pk, None)
    work.failures.pop(attempt.pk, None)
    now = work.now()
    with work.lease.transaction():
        # first, as everywhere: who takes the experiment's row and then the attempt's never waits in a circle
        revision = next_revision(attempt.trial.experiment_id)
        if Attempt.objects.filter(pk=attempt.pk, stage=Attempt.Stage.SUBMITTING).update(
                stage=Attempt.Stage.SUBMITTED, submitted_at=now, platform_state=detail.platform_state):
            Trial.objects.filter(pk=attempt.trial_id, submitted_at=None).update(submitted_at=now, revision=revision)
            Trial.objects.filter(pk=attempt.trial_id, status=TrialJobStatus.WAITING.value).update(
                message=printable(struck_out(detail.message)))
    logger.info("trial %d%s was submitted%s", attempt.trial.sequence_id,
                f" (attempt {attempt.number})" if attempt.number > 1 else "",
                f": {detail.message}" if detail.message else "", extra={"trial": attempt.trial.public_id})


def _not_submitted(work: ClusterWork, attempt: Attempt, error: TrainingServiceError) -> None:
    if not isinstance(error, TemporaryError):
        _refused(work, attempt, str(error))
        return
    work.submitting.discard(attempt.pk)
    failures = work.failures.get(attempt.pk, 0)
    pause = error.retry_after or RETRY_PAUSES[min(failures, len(RETRY_PAUSES) - 1)]
    work.failures[attempt.pk] = failures + 1
    work.not_before[attempt.pk] = work.monotonic() + pause
    logger.warning("trial %d could not be submitted: %s It is submitted again in %g s.", attempt.trial.sequence_id,
                   error, pause, extra={"trial": attempt.trial.public_id})
    with work.lease.transaction():
        Trial.objects.filter(pk=attempt.trial_id, status=TrialJobStatus.WAITING.value).update(
            message=printable(f"{struck_out(str(error))} It is submitted again in {pause:g} s."),
            revision=next_revision(attempt.trial.experiment_id))


def _refused(work: ClusterWork, attempt: Attempt, reason: str) -> None:
    """The platform will never take it: the trial has failed, with that sentence."""
    reason = struck_out(reason)
    work.submitting.discard(attempt.pk)
    logger.error("trial %d was refused: %s", attempt.trial.sequence_id, reason,
                 extra={"trial": attempt.trial.public_id})
    with work.lease.transaction():
        end_attempt(attempt, TrialJobStatus.FAILED, work.now(), revision=next_revision(attempt.trial.experiment_id),
                    message=reason, reason=REFUSED)


def _say_why_nothing_starts(work: ClusterWork, experiment: Experiment) -> None:
    message = printable(struck_out(work.host.message))
    if message and experiment.message != message and experiment.status in (
            ExperimentStatus.INITIALIZED, ExperimentStatus.RUNNING):
        _set_message(work, experiment, message)


def _set_message(work: ClusterWork, experiment: Experiment, message: str) -> None:
    with work.lease.transaction():
        next_revision(experiment.pk)
        Experiment.objects.filter(pk=experiment.pk).update(message=message)
    experiment.message = message
