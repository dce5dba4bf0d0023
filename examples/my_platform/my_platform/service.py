"""Runs each trial as a process of this machine, under a keeper."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from my_platform.config import MyOptions, MySettings
from trainingservice.base import RehearsalFinding, ServiceContext
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.polling.service import MustWait, Observation
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.service import SharedFolderTrainingService
from trainingservice.shared_folder.storage_rehearsal import rehearse_storage
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus


class MyTrainingService(SharedFolderTrainingService):
    """All that is known of a job lies in its folder, so the next object finds everything again."""

    platform: ClassVar[str] = "mine"
    settings_model: ClassVar[type[ClusterSettings]] = MySettings
    options_model: ClassVar[type[TrialOptions]] = MyOptions
    needs_public_url: ClassVar[bool] = False
    pinned_to_host: ClassVar[bool] = True
    poll_interval: ClassVar[tuple[float, float]] = (0.2, 2.0)

    def __init__(self, settings: MySettings, context: ServiceContext) -> None:
        super().__init__(settings, context, SharedFolder(
            settings.folder, str(settings.folder), context.state_folder / "code", private=True))

    def start_job(self, job: TrialJobDetail) -> Observation:
        form, folder = job.form, self.folder_of(job)
        canceled = self.canceled_before(job)
        if canceled is not None:
            return canceled
        if self._is_there(job):  # an earlier try arrived, though its answer did not
            return self._look(job)
        running = sum(not _is_free(file) for file in self.settings.folder.glob("nniweb/*/*/alive"))
        if running >= self.settings.slots:
            raise MustWait(f"All {running} slots are taken; it starts when a trial ends.")
        keeper, there = self.channel.prepare(form, self.platform, form.keeper.urls)
        variables = self.channel.variables(form, there, form.keeper.urls)
        command = ["nice", "-n", str(form.options.nice), sys.executable, keeper, "run"]
        with open(folder / "alive", "w") as alive, open(folder / "keeper.log", "w") as log:
            fcntl.flock(alive, fcntl.LOCK_EX)  # held by the keeper for as long as it lives
            subprocess.Popen(command, env={"PATH": os.environ["PATH"], **variables}, cwd=folder, stdout=log, stderr=log,
                             stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=[alive.fileno()])
        (folder / "started").touch()
        return self._look(job)

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        return {job.id: self._look(job) if self._is_there(job) else None for job in jobs}

    def _look(self, job: TrialJobDetail) -> Observation:
        if _is_free(self.folder_of(job) / "alive"):
            dead = Observation(TrialJobStatus.FAILED, message="Its keeper was killed; rerun the trial.")
            return self.channel.end_of(job, dead)
        told = self.storage.seen_end(job.form.experiment_id, job.id)
        return told or Observation(TrialJobStatus.RUNNING, working_directory=self.working_directory_of(job))

    def _is_there(self, job: TrialJobDetail) -> bool:
        return (self.folder_of(job) / "started").exists() or not _is_free(self.folder_of(job) / "alive")

    def stop_job(self, job: TrialJobDetail) -> None:
        self.storage.cancel(job.form.experiment_id, job.id)  # the keeper looks for it each second

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return list(rehearse_storage(self.storage))


def _is_free(lock: Path) -> bool:
    try:
        with open(lock) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True
