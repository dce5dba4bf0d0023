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
        timeout. Raises that fault where no job had an answer before. What is said of one job and not understood (an
        error of another class) ends no round: the first such error is raised where no job has an answer.
        """
        answers: dict[str, Observation | None] = {}
        failed = self._failed
        odd: dict[str, Exception] = {}
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
            except Exception as error:
                odd[job.id] = error
                if job.id not in failed:
                    logger.exception("what is said of job %s is not understood; others are asked about", job.id)
                failed |= {job.id}
            else:
                failed -= {job.id}
        self._failed = frozenset(odd)
        if odd and not answers:
            raise next(iter(odd.values()))
        return answers
