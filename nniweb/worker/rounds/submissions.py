"""Attempts are handed over to the platform, and what came of it is written down.

An attempt is committed as "submitting" before the platform is called, and submitting it once more is harmless: where
the process dies in between, ``submit_again`` finds it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from nniweb.database.outage_logs import takes_nothing
from nniweb.experiments.budgets.attempt_costs import charged_to
from nniweb.experiments.clusters.placement import Placement
from nniweb.experiments.launch.job_forms import application_form, first_parameters, keeper_access
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialParameters
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.models.trial import TrialTarget, job_name
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.changed_rows import update_each
from nniweb.experiments.sql.new_rows import insert
from nniweb.observability.log_ids import log_ids
from nniweb.storage.elsewhere import StorageFailed
from nniweb.storage.local_copies import CopyDamaged
from nniweb.worker.cluster_host.service_answers import job_detail
from nniweb.worker.rounds import warm_places
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.submission_answers import not_submitted, refused
from trainingservice import tracing
from trainingservice.base import TrainingService
from trainingservice.errors import TemporaryError
from trainingservice.lasting_thread import in_short
from trainingservice.reasons import Reason, as_document
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper.shortage import is_shortage

#: The code with which a trial says that its experiment keeps it waiting.
HELD = "experiment_held"


class NewAttempts:
    """Attempts of trials of one experiment, to be stored with ``create`` and, after its transaction, given to
    ``hand_over``.

    ``numbers``: of the attempts, by trial (primary key); those that are not there have their first one. ``placements``:
    where they run, by trial; those that are not there run on the work's own cluster. One for another cluster, or one
    that is without a service now, has no token yet: it is made before the attempt is handed over.
    """

    def __init__(self, experiment: Experiment, trials: Iterable[Trial], work: ClusterWork,
                 numbers: Mapping[int, int] | None = None, placements: Mapping[int, Placement] | None = None) -> None:
        now = work.now()
        numbers, placements, charged = numbers or {}, placements or {}, charged_to(experiment)
        self._attempts = []
        self._tokens = {}
        for trial in trials:
            number, placement = numbers.get(trial.pk, 1), placements.get(trial.pk)
            attempt = Attempt(trial=trial, number=number, job_name=job_name(trial.public_id, number), created_at=now,
                              cluster_id=work.cluster_pk if placement is None else placement.cluster,
                              placement=None if placement is None else as_document(placement.reason),
                              **charged)
            if attempt.cluster_id == work.cluster_pk and (work.service is not None or placement is None):
                self._tokens[trial.pk] = secrets.token_urlsafe(32)
                attempt.token_hashes = [hash_of(self._tokens[trial.pk])]
            self._attempts.append(attempt)

    def create(self) -> None:
        insert(self._attempts)

    def hand_over(self, work: ClusterWork, parameters: Mapping[int, TrialParameters]) -> None:
        """``parameters``: by trial, whose experiment is as rounds load it."""
        if work.service is not None:
            for attempt in warm_places.without_place(work, self._attempts):
                if (token := self._tokens.get(attempt.trial_id)) is not None:
                    _hand_over(work, work.service, attempt, parameters.get(attempt.trial_id), token)
        if any(attempt.cluster_id != work.cluster_pk for attempt in self._attempts):
            doorbell.ring(self._attempts[0].trial.experiment_id)


def was_never_handed_over(attempt: Attempt) -> bool:
    """Whether no platform was ever asked to run it: it has no token, without which nothing is handed over."""
    return attempt.stage == Attempt.Stage.SUBMITTING and not attempt.token_hashes


def claim_never_handed_over(attempt: Attempt) -> bool:
    """Whether that is still so, in a transaction that ends it: the worker of its cluster can make no token then."""
    return bool(Attempt.objects.select_for_update().filter(
        pk=attempt.pk, stage=Attempt.Stage.SUBMITTING, token_hashes=[]).values_list("pk"))


#: Columns that cost most to read, and nobody asks for, of an attempt that is handed over.
_NOT_NEEDED = (
    "placement", "remark", "tags", "resources", "observed_end", "refresh_problem", "keeper_urls", "gpu_indices",
    "created_at", "submitted_at", "ended_at", "end_received_at", "heard_at", "unseen_since", "refresh_asked_at",
    "refreshed_at", "observed_end_at", "trial__reason_arguments", "trial__tags", "trial__created_at",
    "trial__ended_at", "trial__output_removed_at", "trial__readings_removed_at", "trial__files_removed_at")


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
        cluster=work.cluster_pk, stage=Attempt.Stage.SUBMITTING).exclude(pk__in=list(work.submitting)).select_related(
        "trial").defer(*_NOT_NEEDED).order_by("pk") if now >= work.not_before.get(attempt.pk, 0.0)]
    for attempt in due:
        attempt.trial.experiment = experiment
    if not starts:
        held = [attempt for attempt in due if not _has_started(attempt)]
        _say_that_they_wait(work, experiment, held)
        due = [attempt for attempt in due if _has_started(attempt)]
    due = warm_places.without_place(work, due)
    if not due:
        return
    tokens = {attempt.pk: secrets.token_urlsafe(32) for attempt in due}
    with work.lease.transaction():
        for attempt in due:  # the running job of an earlier submission may hold the older token: none is removed
            attempt.token_hashes = [*attempt.token_hashes, hash_of(tokens[attempt.pk])]
        changed = update_each(Attempt, ["token_hashes"], "id = %s AND stage = %s", [
            (attempt.token_hashes, attempt.pk, Attempt.Stage.SUBMITTING) for attempt in due])
        if changed < len(due):  # the home of an experiment on several clusters ends what was never handed over
            left = set(Attempt.objects.filter(
                pk__in=[attempt.pk for attempt in due], stage=Attempt.Stage.SUBMITTING).values_list("pk", flat=True))
            due = [attempt for attempt in due if attempt.pk in left]
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
    except StorageFailed as error:  # the code is in a storage that does not answer
        not_submitted(work, attempt, TemporaryError(Reason("file_storage", what=error.what)))
        return
    except Exception as error:
        if takes_nothing(error):
            del work.submitting[attempt.pk]
            raise
        if _passes(error):
            not_submitted(work, attempt, TemporaryError(Reason("server_short", said=in_short(error))))
            return
        # options that no longer fit, a lost archive: this trial's fault alone
        refused(work, attempt, f"The trial cannot be submitted: {error}")
        return
    work.host.call(f"submission of trial {attempt.trial.sequence_id}", "submit_trial_job",
                   lambda: _call_submit(work, service, form), lambda taken: work.submitted.append((attempt, *taken)),
                   lambda error: not_submitted(work, attempt, error))


def _passes(error: Exception) -> bool:
    """Whether it is the machine's: a full disk, too many open files, no memory. Not that the code is lost."""
    return is_shortage(error) or isinstance(error, OSError) and not isinstance(error, FileNotFoundError | CopyDamaged)


def _call_submit(work: ClusterWork, service: TrainingService,
                 form: JobApplicationForm) -> tuple[TrialJobDetail, datetime]:
    """What the platform said, and when."""
    with log_ids(experiment=form.experiment_id, trial=form.trial_job_id), \
            tracing.span("submit", experiment=form.experiment_id, trial=form.trial_job_id, job=form.job_name,
                         platform=service.platform):
        return job_detail(service.submit_trial_job(form)), work.now()
