"""A platform with everything a section can have: nested lists, secrets, paths, options, NNI v1 names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, SecretStr

from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions


class Machine(SettingsModel):
    host: str
    port: int = Field(22, ge=1, le=65535)
    password: SecretStr | None = None
    ssh_key_file: Path | None = None


class FarmSettings(ClusterSettings):
    platform_name: ClassVar[str] = "farm"
    reuse_mode_meaning: ClassVar[str] = "the farm never sleeps"
    v1_fields: ClassVar[Mapping[str, str]] = {
        "machineList[].ip": "machineList[].host",
        "machineList[].port": "machineList[].port",
        "machineList[].passwd": "machineList[].password",
        "machineList[].sshKeyPath": "machineList[].sshKeyFile",
        "farmConfig.apiToken": "token",
        "farmConfig.reuse": "reuseMode",
    }
    v1_dropped: ClassVar[Mapping[str, str]] = {"machineList[].preCommand": "put it into the trial's command"}

    machine_list: list[Machine] = Field(min_length=1)
    token: SecretStr | None = None


class FarmOptions(TrialOptions):
    v1_fields: ClassVar[Mapping[str, str]] = {"trial.image": "image", "farmConfig.image": "image"}

    image: str = "debian"
    labels: dict[str, str] = {}


def _never(self: TrainingService, *args: Any, **kwargs: Any) -> Any:
    raise AssertionError("reading a config file must not touch the service")


class FarmTrainingService(TrainingService):
    platform = "farm"
    settings_model = FarmSettings
    options_model = FarmOptions
    list_trial_jobs = get_trial_job = submit_trial_job = update_trial_job = cancel_trial_job = _never
    is_multi_phase_job_supported = property(_never)
    run = clean_up = resume_trial_jobs = rehearse = clean_up_experiment = _never
