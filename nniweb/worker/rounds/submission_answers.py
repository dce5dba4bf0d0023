"""What platforms answered to submissions is written down: taken, not taken for now, refused."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from nniweb.experiments.lifecycle.cluster_records import end_of_refused
from nniweb.experiments.lifecycle.reason_columns import said, said_by_platform, struck_reason
from nniweb.experiments.lifecycle.transitions import end_attempt
from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.changed_rows import update
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.worker.rounds.cluster_work import ClusterWork
from nniweb.worker.rounds.observing.differing_jobs import facts, interpreter_of
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.reasons import Reason, because_of
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: Pauses before an attempt is submitted again, in seconds.
RETRY_PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)


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
                    update(Attempt, "id = %s", [attempt.pk], submitted_at=at, **interpreter_of(detail))
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


def not_submitted(work: ClusterWork, attempt: Attempt, error: TrainingServiceError) -> None:
    """The platform did not take it: it is tried again after a pause, or refused for good."""
    if not isinstance(error, TemporaryError):
        refused(work, attempt, error.reason)
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


def refused(work: ClusterWork, attempt: Attempt, reason: str) -> None:
    """The platform will never take it: the trial goes to another cluster that may, or has failed, for that reason."""
    reason = struck_reason(reason)
    for known in (work.submitting, work.not_before, work.failures):
        known.pop(attempt.pk, None)
    logger.error("trial %d was refused: %s", attempt.trial.sequence_id, reason,
                 extra={"trial": attempt.trial.public_id})
    with work.lease.transaction():
        revision = next_revision(attempt.trial.experiment_id)
        end_attempt(attempt, end_of_refused(attempt, reason), work.now(), revision=revision)
