"""The platform of a simulated fleet: all its jobs run, and a stop is brought to the program that is their keepers.

It is asked as other platforms are, and may be away: then only reports say that trials live.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from trainingservice.base import RehearsalFinding
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.errors import TemporaryError
from trainingservice.polling.service import Observation, PollingTrainingService
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

#: Variables of the worker: the UDP port of the keepers on this machine, and a file while which exists it is away.
STOPS_PORT, AWAY_FILE = "FLEET_STOPS_PORT", "FLEET_AWAY_FILE"


class FleetSettings(ClusterSettings):
    platform_name: ClassVar[str] = "fleet"


class FleetTrainingService(PollingTrainingService):
    platform: ClassVar[str] = "fleet"
    settings_model: ClassVar[type[ClusterSettings]] = FleetSettings
    needs_public_url: ClassVar[bool] = False

    def start_job(self, job: TrialJobDetail) -> Observation:
        return Observation(TrialJobStatus.RUNNING)

    def observe_jobs(self, jobs: Sequence[TrialJobDetail]) -> Mapping[str, Observation | None]:
        if Path(os.environ[AWAY_FILE]).exists():
            raise TemporaryError("The simulated cluster is away.")
        return {job.id: Observation(TrialJobStatus.RUNNING) for job in jobs}

    def stop_job(self, job: TrialJobDetail) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(job.id.encode(), ("127.0.0.1", int(os.environ[STOPS_PORT])))

    def remove_experiment(self, experiment_id: str, jobs: Sequence[TrialJobDetail]) -> None:
        pass

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        return [RehearsalFinding("fleet", True, "It is simulated.")]
