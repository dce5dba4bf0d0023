"""A keeper that something outside of this server stopped: only the platform knows what it was.

Somebody may have deleted its job, or suspended it, or the cluster took the machine. Where the platform may suspend
jobs the keeper's last word is therefore no end yet: it is held in ``Attempt.observed_end`` until the platform says
what became of the job, or for the drain time.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nniweb.experiments.models import Attempt, Cluster
from trainingservice.errors import TrainingServiceError
from trainingservice.platforms import load_platform
from trainingservice.reasons import arguments_of, code_of
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

_HELD = "held"


def must_be_held(attempt: Attempt, reason: str) -> bool:
    """Whether such an end of an attempt that is wanted to run waits for the platform's word."""
    if reason != contract.STOPPED:
        return False
    platform = Cluster.objects.filter(experiments__trials=attempt.trial_id).values_list("platform", flat=True).get()
    try:
        return load_platform(platform).suspends_jobs
    except TrainingServiceError:  # a library is missing here
        return False


def hold(attempt: Attempt, entry: contract.Entry, status: TrialJobStatus, message: str, at: datetime) -> None:
    """Keep the keeper's ``ended`` entry, judged so, until the platform has spoken."""
    Attempt.objects.filter(pk=attempt.pk, observed_end__isnull=True).exclude(stage=Attempt.Stage.ENDED).update(
        observed_end_at=at, observed_end={
            _HELD: True, "status": status.value, "message": message, "code": code_of(message),
            "arguments": arguments_of(message), "exit_code": entry["exit_code"],
            "reason": entry["reason"], "duration": entry["duration"], "cause": ""})


def is_held(attempt: Attempt) -> bool:
    return bool((attempt.observed_end or {}).get(_HELD))


def completed(held: Mapping[str, Any], observed: Mapping[str, Any]) -> dict[str, Any]:
    """A held end with the platform's word: its status and reason, and what the keeper alone knows."""
    why = observed if observed["message"] else held
    return {**observed, "message": why["message"], "code": why.get("code", ""), "arguments": why.get("arguments", {}),
            "exit_code": held["exit_code"], "reason": held["reason"], "duration": held["duration"]}
