"""Keepers whose version of the protocol this server does not understand: their trials' pages say so.

A keeper that is refused takes the server for away. So its trial goes on, and what it reports waits in its journal for
a server that understands it.
"""

import logging

from django.db import transaction
from django.utils import timezone

from nniweb.experiments.ingest.one_report import authenticate
from nniweb.experiments.ingest.reporting_attempts import reporting_attempts
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import Trial
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.exact_text import printable
from trainingservice.reasons import Reason
from trainingservice.receiver.report_reading import VERSIONS, UnspokenVersion
from trialkeeper import contract

logger = logging.getLogger(__name__)


def note(job_name: str, token_hash: str, refused: UnspokenVersion) -> None:
    """Say on the trial that its keeper was refused, once. Raises RefusedReport for a wrong token, DatabaseError."""
    with transaction.atomic():
        attempt = reporting_attempts({job_name}).get(job_name)
        if attempt is None:
            return
        authenticate(attempt, token_hash, timezone.now())
        reason = _why_refused(refused.version)
        message = printable(reason)
        if attempt.message == message or attempt.target != TrialTarget.RUN:
            return
        revision = next_revision(attempt.experiment_pk, needs_round=False)
        is_said = Trial.objects.unfinished().filter(pk=attempt.trial_pk, target=TrialTarget.RUN).update(
            revision=revision, **said(reason))
        if is_said:
            trial = attempt.row().trial
            logger.warning("job %s: %s", job_name, message,
                           extra={"experiment": trial.experiment.public_id, "trial": trial.public_id})


def _why_refused(version: object) -> Reason:
    """``version`` may be anything that JSON has."""
    return Reason("keeper_version", version=str(version)[:20],
                  newer=isinstance(version, int) and version > contract.PROTOCOL_VERSION, spoken=sorted(VERSIONS))
