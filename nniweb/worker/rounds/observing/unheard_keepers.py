"""Trials that run while their keepers have never called: that is said after a while, with what may be the reason."""

from __future__ import annotations

from datetime import timedelta

from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.queries.trial_advice import KEEPER_NOT_HEARD
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.sql.exact_text import printable
from nniweb.observability.log_ids import ExperimentLogger, log_ids
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.base import TrainingService
from trainingservice.trial_job_status import TrialJobStatus

logger = ExperimentLogger(__name__)

#: So long a trial runs before its keeper is missed: a keeper calls within a second, also before it fetches the code.
MISSED_AFTER = timedelta(seconds=30)
#: Seconds between two looks.
LOOK_SECONDS = 5.0
#: Trials that are looked into at a time.
CHUNK = 20


def remark_on_unheard_keepers(work: ClusterWork) -> None:
    """Ask for the last lines of the logs of such trials; what is found is written down in a later round, once."""
    service = work.service
    if service is None or work.monotonic() < work.next_look_for_unheard:
        return
    work.next_look_for_unheard = work.monotonic() + LOOK_SECONDS
    if not (service.keepers_report and service.settings.keepers_call_home()):
        return
    unheard = Attempt.objects.under_way().filter(
        cluster=work.cluster_pk, trial__status=TrialJobStatus.RUNNING.value, heard_at=None,
        remark__isnull=True, started_at__lt=work.now() - MISSED_AFTER).exclude(
        pk__in=list(work.looked_into)).exclude(keeper_urls=[]).select_related("trial__experiment")
    # in no order of theirs: those that have not begun are looked at again and again, and must not hide others
    for attempt in unheard.order_by("?")[:CHUNK]:
        _look_into(work, service, attempt)


def _look_into(work: ClusterWork, service: TrainingService, attempt: Attempt) -> None:
    work.looked_into.add(attempt.pk)
    work.host.call(f"last lines of trial {attempt.trial.sequence_id}", "last_lines",
                   lambda: service.last_lines(attempt.job_name),
                   lambda said: _remark(work, attempt, said), lambda _: _remark(work, attempt, ""))


def _remark(work: ClusterWork, attempt: Attempt, last_lines: str | None) -> None:
    work.looked_into.discard(attempt.pk)
    if last_lines is None:  # it has not begun; the platform's own message says why
        return
    remark = {"code": KEEPER_NOT_HEARD, "arguments": {
        "addresses": attempt.keeper_urls, "last_lines": printable(struck_out(last_lines))}}
    with work.lease.transaction():
        revision = next_revision(attempt.trial.experiment_id, needs_round=False)
        if not Attempt.objects.filter(pk=attempt.pk, heard_at=None).update(remark=remark):
            return
        Trial.objects.filter(pk=attempt.trial_id).update(revision=revision)
    with log_ids(experiment=attempt.trial.experiment.public_id):
        logger.warning("trial %d runs, but its keeper has not called this server at %s", attempt.trial.sequence_id,
                       " or ".join(attempt.keeper_urls), extra={"trial": attempt.trial.public_id})
