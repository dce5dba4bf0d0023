"""What came of an experiment: beside its status, which says only where it is in its life."""

from __future__ import annotations

from enum import StrEnum

from nniweb.experiments.models import Experiment
from nniweb.experiments.models.trial import RESULTS
from nniweb.experiments.results.progress import Progress
from trainingservice.trial_job_status import TrialJobStatus


class Outcome(StrEnum):
    """Of an experiment that has ended, DONE, STOPPED or ERROR."""

    #: It has a result that counts, and no trial failed.
    SUCCEEDED = "succeeded"
    #: It has a result that counts, and trials failed.
    PARTLY_FAILED = "partly_failed"
    #: Trials failed, and none succeeded or was stopped early.
    FAILED = "failed"
    #: No trial has a result that counts.
    NO_RESULT = "no_result"


def outcome_of(experiment: Experiment, progress: Progress) -> Outcome | None:
    """None while it goes on."""
    if not experiment.is_finished:
        return None
    failed = progress.counts[TrialJobStatus.FAILED.value]
    ended_well = any(progress.counts[status] for status in RESULTS)
    if failed and not ended_well:
        return Outcome.FAILED
    # with replicates the best value is that of a proposal that was run in full, which there need not be
    if progress.best_trial_id is None and not progress.front and not (experiment.has_replicates and ended_well):
        return Outcome.NO_RESULT
    return Outcome.PARTLY_FAILED if failed else Outcome.SUCCEEDED
