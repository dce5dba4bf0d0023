"""A polling platform whose trials share a folder with the server: keeper, job and code go through it, and reports
come home through it where keepers cannot call anybody.

``SharedFolderTrainingService`` brings what such platforms have in common. A platform adds ``start_job``,
``observe_jobs`` and ``stop_job``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from trainingservice.base import ServiceContext
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.files.output_folder import OutputFolder
from trainingservice.keeper.collected_journals import JournalSource
from trainingservice.polling.job_record import Observation
from trainingservice.polling.service import PollingTrainingService
from trainingservice.reasons import Reason
from trainingservice.shared_folder.folder import FolderJournal, SharedFolder
from trainingservice.shared_folder.storage_channel import StorageChannel
from trainingservice.submit_host.disk import Disk
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


class SharedFolderTrainingService(PollingTrainingService):
    """``storage`` is the folder, ``channel`` what is done with it for keepers. Threads and errors: as in the base.

    One that overrides ``open``, ``close``, ``job_ended`` or ``remove_experiment`` calls the method here, too.
    """

    takes_variants: ClassVar[bool] = True

    def __init__(self, settings: ClusterSettings, context: ServiceContext, storage: SharedFolder, *,
                 journal: Callable[[Path, Disk], JournalSource] = FolderJournal,
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        """``journal``: reads the journal of the attempt in a folder."""
        super().__init__(settings, context, monotonic=monotonic)
        self.storage = storage
        self.channel = StorageChannel(storage, context, journal)

    def open(self) -> None:
        self.channel.open()

    def close(self) -> None:
        self.channel.close()

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        self.channel.remove_experiment(experiment_id)

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return True

    def deliver_order(self, job: TrialJobDetail, order: contract.Order) -> None:
        self.channel.deliver_order(job, order)

    def job_ended(self, job: TrialJobDetail) -> None:
        self.channel.job_ended(job.id)

    def output_folder(self, job: TrialJobDetail) -> OutputFolder:
        return self.storage.output(job.form.experiment_id, job.id)

    # --- what a platform may call ----------------------------------------------------------

    def folder_of(self, job: TrialJobDetail) -> Path:
        """The attempt's folder, as this server sees it."""
        return self.storage.attempt(job.form.experiment_id, job.id)

    def working_directory_of(self, job: TrialJobDetail) -> str:
        """The trial's working directory, as its machine sees it."""
        return self.storage.working_directory(job.form.experiment_id, job.id)

    def canceled_before(self, job: TrialJobDetail) -> Observation | None:
        """What ``start_job`` answers for a job that was canceled before it began; None where it was not."""
        if not self.storage.is_canceled(job.form.experiment_id, job.id):
            return None
        return Observation(TrialJobStatus.SYS_CANCELED, message=Reason("canceled_before_start"))
