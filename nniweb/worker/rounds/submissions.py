"""Attempts are handed over to the platform, and what came of it is written down.

An attempt is committed as "submitting" before the platform is called, and submitting it once more is harmless: where
the process dies in between, ``submit_again`` finds it.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from nniweb.experiments.launch.job_forms import application_form, first_parameters, keeper_access
from nniweb.experiments.lifecycle.reasons import said, said_by_platform, struck_reason
from nniweb.experiments.lifecycle.retries import REFUSED
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialParameters
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.new_rows import insert
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.observe_trials import facts
from trainingservice.base import TrainingService
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.reasons import Reason, because_of, refusal
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: The code with which a trial says that its experiment keeps it waiting.
HELD = "experiment_held"
#: Pauses before an attempt is submitted again, in seconds.
RETRY_PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)


class NewAttempts:
    """First attempts of trials, to be stored with ``create`` and, after its transaction, given to ``hand_over``."""

    def __init__(self, trials: Iterable[Trial], work: ClusterWork) -> None:
        now = work.now()
        self._tokens = {trial.pk: secrets.token_urlsafe(32) for trial in trials}
        self._attempts = [Attempt(trial=trial, number=1, job_name=trial.public_id, created_at=now,
                                  token_hashes=[hash_of(self._tokens[trial.pk])]) for trial in trials]

    def create(self) -> None:
        insert(self._attempts)

    def hand_over(self, work: ClusterWork, parameters: Mapping[int, TrialParameters]) -> None:
        """``parameters``: by trial, whose experiment is as rounds load it."""
        if work.service is not None:
            for attempt in self._attempts:
                trial_pk = attempt.trial_id
                _hand_over(work, work.service, attempt, parameters.get(trial_pk), self._tokens[trial_pk])


def submit_again(work: ClusterWork, experiment: Experiment, starts: bool) -> None:
    """Hand over what is committed as submitting and is not on its way: retries, what failed, what a worker left.

    Where the experiment starts nothing now, only what is known to have started: handing that over once more lets the
    platform's object find it again. The rest waits, and says for what.
    """
    service = work.service
    if service is None:
        return
    now = work.monotonic()
    due = [attempt for attempt in Attempt.objects.filter(
        trial__in=Trial.objects.unfinished().filter(experiment=experiment, target=TrialTarget.RUN),
        stage=Attempt.Stage.SUBMITTING).exclude(pk__in=list(work.submitting)).select_related(
        "trial__experiment__code").order_by("pk") if now >= work.not_before.get(attempt.pk, 0.0)]
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
        if waited := [attempt.trial_id for attempt in due if attempt.trial.reason == HELD]:
            Trial.objects.filter(pk__in=waited, reason=HELD).update(
                revision=next_revision(experiment.pk, needs_round=False), **said(""))
    parameters = first_parameters([attempt.trial_id for attempt in due])
    for attempt in due:
        _hand_over(work, service, attempt, parameters.get(attempt.trial_id), tokens[attempt.pk])


def _has_started(attempt: Attempt) -> bool:
    return bool(attempt.journal_id) or attempt.trial.status == TrialJobStatus.RUNNING


def _say_that_they_wait(work: ClusterWork, experiment: Experiment, attempts: Sequence[Attempt]) -> None:
    message = Reason(HELD, status=str(experiment.status))
    silent = [attempt.trial_id for attempt in attempts if attempt.trial.message != message]
    if silent:
        with work.lease.transaction():
            revision = next_revision(experiment.pk, needs_round=False)
            Trial.objects.filter(pk__in=silent, status=TrialJobStatus.WAITING.value, target=TrialTarget.RUN).update(
                revision=revision, **said(message))


def _hand_over(work: ClusterWork, service: TrainingService, attempt: Attempt, parameters: TrialParameters | None,
               token: str) -> None:
    work.submitting[attempt.pk] = attempt.trial.experiment_id
    try:
        form = application_form(attempt, parameters, type(service),
                                keeper_access(attempt.trial.experiment, type(service), token))
    except Exception as error:  # options that no longer fit, a lost archive: this trial's fault alone
        _refused(work, attempt, f"It cannot be submitted: {error}")
        return
    work.host.call(f"submission of trial {attempt.trial.sequence_id}", lambda: _call_submit(work, service, form),
                   lambda taken: work.submitted.append((attempt, *taken)),
                   lambda error: _not_submitted(work, attempt, error))


def _call_submit(work: ClusterWork, service: TrainingService,
                 form: JobApplicationForm) -> tuple[TrialJobDetail, datetime]:
    """What the platform said, and when."""
    with log_ids(experiment=form.experiment_id, trial=form.trial_job_id):
        return service.submit_trial_job(form), work.now()


def note_submitted(work: ClusterWork) -> None:
    """Write down, in one transaction, which submissions the platform has taken since the last time.

    Where that cannot be written they are still "submitting", and are submitted once more.
    """
    taken, work.submitted = work.submitted, []
    if not taken:
        return
    by_experiment: dict[int, list[tuple[Attempt, TrialJobDetail, datetime]]] = defaultdict(list)
    failed_before = set()
    for attempt, detail, at in taken:
        by_experiment[attempt.trial.experiment_id].append((attempt, detail, at))
        work.submitting.pop(attempt.pk, None)
        work.not_before.pop(attempt.pk, None)
        if work.failures.pop(attempt.pk, 0):
            failed_before.add(attempt.pk)
    with work.lease.transaction():
        for experiment_pk, its in sorted(by_experiment.items(), key=lambda item: item[0]):
            # first, as everywhere: who takes the experiment's row and then the attempt's never waits in a circle
            revision = next_revision(experiment_pk, needs_round=False)
            for attempt, detail, at in its:
                update(Trial, "id = %s AND submitted_at IS NULL", [attempt.trial_id], submitted_at=at,
                       revision=revision)
                if not update(Attempt, "id = %s AND stage = %s", [attempt.pk, Attempt.Stage.SUBMITTING.value],
                              stage=Attempt.Stage.SUBMITTED.value, submitted_at=at,
                              platform_state=detail.platform_state, keeper_urls=_addresses_to_call(detail),
                              **facts(detail)):
                    # it has ended meanwhile; what its keeper said since is better
                    update(Attempt, "id = %s", [attempt.pk], submitted_at=at)
                    continue
                if detail.message or attempt.trial.message or attempt.pk in failed_before:
                    Trial.objects.filter(pk=attempt.trial_id, status=TrialJobStatus.WAITING.value).update(
                        **said_by_platform(struck_reason(detail.message)))
    for attempt, detail, _ in taken:
        with log_ids(experiment=attempt.trial.experiment.public_id):
            logger.info("trial %d%s was submitted%s", attempt.trial.sequence_id,
                        f" (attempt {attempt.number})" if attempt.number > 1 else "",
                        f": {detail.message}" if detail.message else "", extra={"trial": attempt.trial.public_id})


def _addresses_to_call(detail: TrialJobDetail) -> list[str]:
    """Those that the keeper was given; none where it reports another way."""
    return list(detail.form.keeper.urls) if detail.form.options.keepers_may_call() else []


def _not_submitted(work: ClusterWork, attempt: Attempt, error: TrainingServiceError) -> None:
    if not isinstance(error, TemporaryError):
        _refused(work, attempt, error.reason)
        return
    work.submitting.pop(attempt.pk, None)
    failures = work.failures.get(attempt.pk, 0)
    pause = error.retry_after or RETRY_PAUSES[min(failures, len(RETRY_PAUSES) - 1)]
    work.failures[attempt.pk] = failures + 1
    work.not_before[attempt.pk] = work.monotonic() + pause
    logger.warning("trial %d could not be submitted: %s It is submitted again in %g s.", attempt.trial.sequence_id,
                   error, pause, extra={"trial": attempt.trial.public_id})
    why = struck_reason(error.reason)
    with work.lease.transaction():
        Trial.objects.filter(pk=attempt.trial_id, status=TrialJobStatus.WAITING.value).update(
            revision=next_revision(attempt.trial.experiment_id),
            **said(Reason("not_submitted", said=str(why), pause=pause, **because_of(why))))


def _refused(work: ClusterWork, attempt: Attempt, reason: str) -> None:
    """The platform will never take it: the trial has failed, for that reason."""
    reason = struck_reason(reason)
    work.submitting.pop(attempt.pk, None)
    logger.error("trial %d was refused: %s", attempt.trial.sequence_id, reason,
                 extra={"trial": attempt.trial.public_id})
    with work.lease.transaction():
        end_attempt(attempt, TrialJobStatus.FAILED, work.now(), revision=next_revision(attempt.trial.experiment_id),
                    message=refusal(reason), reason=REFUSED)
