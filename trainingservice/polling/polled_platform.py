"""What a platform that is asked at intervals writes: four methods, and what it likes to add.

``PollingTrainingService`` calls them, from several threads and never with a lock held.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar

from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import TrialOptions
from trainingservice.errors import Unsupported
from trainingservice.polling.job_record import Observation
from trainingservice.trial_job import HyperParameters, TrialJobDetail
from trialkeeper import contract


class PolledPlatform(TrainingService):
    """The contract between a platform and ``PollingTrainingService``."""

    keepers_report: ClassVar[bool] = True
    #: True: a job is handed over inside ``submit_trial_job``, in the caller's thread; what cannot be
    #: handed over now stays in the queue. False: ``run`` hands it over, within milliseconds.
    submits_at_once: ClassVar[bool] = False
    #: Shortest and longest pause between two questions, in seconds.
    poll_interval: ClassVar[tuple[float, float]] = (1.0, 15.0)
    #: First and longest pause after a fault, in seconds; doubled with each fault.
    back_off: ClassVar[tuple[float, float]] = (0.5, 60.0)
    #: After a resume a job is believed absent only when the platform said so for this long: more than 0
    #: where a job shows up some time after it was submitted and names do not prevent doubles.
    search_time: ClassVar[float] = 0.0

    # --- the four methods ------------------------------------------------------------------

    @abc.abstractmethod
    def start_job(self, job: TrialJobDetail) -> Observation:
        """Hand one job to the platform; return what is known of it then.

        Must be idempotent by ``job.id``: a job the platform knows already is returned, not doubled.
        Raises MustWait (no room now), TemporaryError (try again), PermanentError (it can never run:
        it becomes FAILED with the text).
        """

    @abc.abstractmethod
    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        """Ask about all given jobs in one question. Job name -> what was seen.

        None: the platform is sure that it has no such job. A missing key: it said nothing, the last
        answer stays. Raises TemporaryError when it cannot be asked.
        """

    @abc.abstractmethod
    def stop_job(self, job: TrialJobDetail) -> None:
        """End a job (``job.is_early_stopped`` says why). Returns when the request is on its way.

        Also called for jobs that were never handed over: leave a tombstone where the platform can,
        so that a late submission starts nothing. Harmless when repeated and for unknown jobs.
        """

    @abc.abstractmethod
    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        """Remove all that an experiment left on the platform. Its known jobs have ended. May be repeated.

        ``jobs``: those that are still remembered. There were others: an earlier object's, and those that were forgotten
        after their end.
        """

    @abc.abstractmethod
    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        """As the base class says; there is no default."""

    # --- what a platform may add -----------------------------------------------------------

    def open(self) -> None:
        """``run`` begins: connect. Errors are logged; the first question tells more."""

    def close(self) -> None:
        """``clean_up``: end connections and threads. Called once."""

    def deliver_order(self, job: TrialJobDetail, order: contract.Order) -> None:
        """Bring an order to the keeper of a running job, sooner than the answer to its next report.

        Raises Unsupported where the platform has no way to it.
        """
        raise Unsupported(f"the {self.platform} platform cannot bring an order to the keeper of a running job")

    def deliver_parameters(self, job: TrialJobDetail, parameters: HyperParameters) -> None:
        """Give a running trial the parameters of a later phase."""
        self.deliver_order(job, {"order": contract.ORDER_PARAMETERS, "index": parameters.index,
                                 "text": parameters.value})

    def job_ended(self, job: TrialJobDetail) -> None:
        """Called once when a job has ended, however it ended: let go of what was reserved for it."""

    def is_done_with(self, job: TrialJobDetail) -> bool:
        """Whether nothing is left to do for an ended job (a journal to fetch), so that it may be forgotten.

        Asked with the lock of the jobs held: answer from memory, and call nothing of this object that takes it.
        """
        return True

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return False
