"""Questions about single jobs, one after the other: one that cannot be answered holds up no other job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from trainingservice.errors import TrainingServiceError
from trainingservice.polling.job_record import Observation
from trainingservice.trial_job import TrialJobDetail

logger = logging.getLogger(__name__)

Answers = Mapping[str, Observation | None]


class OneByOne:
    """Remembers whose question failed: in the next round those come last. May be used from several threads."""

    def __init__(self) -> None:
        self._failed: frozenset[str] = frozenset()

    def ask(self, jobs: Sequence[TrialJobDetail], question: Callable[[TrialJobDetail], Answers]) -> Answers:
        """What the jobs' answers say together. ``question``: {} where nothing is said of the job.

        The first fault ends the round, because of a platform that is away each further question would take until its
        timeout. Raises that fault where no job had an answer before.
        """
        answers: dict[str, Observation | None] = {}
        failed = self._failed
        for job in sorted(jobs, key=lambda job: job.id in failed):  # stable
            try:
                answers |= question(job)
            except TrainingServiceError as error:
                self._failed = failed | {job.id}
                if not answers:
                    raise
                if job.id not in failed:
                    logger.warning("job %s cannot be asked about, others can: %s", job.id, error)
                return answers
            failed -= {job.id}
        self._failed = frozenset()
        return answers
