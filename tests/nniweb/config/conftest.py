"""A folder with a small experiment, its config in both forms, and the farm platform."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigError, ConfigInvalid, parse_experiment_config
from trainingservice.platforms import register, unregister

SPACE = {"lr": {"_type": "loguniform", "_value": [0.0001, 0.1]}, "units": {"_type": "choice", "_value": [16, 32]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "space.json").write_text(json.dumps(SPACE))
    return tmp_path


@pytest.fixture
def v2() -> dict[str, Any]:
    return {
        "experimentName": "digits",
        "searchSpaceFile": "space.json",
        "trialCommand": "python3 train.py",
        "trialCodeDirectory": "code",
        "trialConcurrency": 2,
        "trialGpuNumber": 1,
        "maxExperimentDuration": "90m",
        "maxTrialNumber": 10,
        "nniManagerIp": "10.0.0.1",
        "logLevel": "debug",
        "tunerGpuIndices": [0, 1],
        "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "maximize", "seed": 7}},
        "assessor": {"name": "Medianstop", "classArgs": {"start_step": 3}},
        "trainingService": {"platform": "local", "useActiveGpu": True, "maxTrialNumberPerGpu": 2, "gpuIndices": "0,1"},
    }


@pytest.fixture
def v1() -> dict[str, Any]:
    return {
        "authorName": "someone",
        "experimentName": "digits",
        "trialConcurrency": 2,
        "maxExecDuration": "90m",
        "maxTrialNum": 10,
        "trainingServicePlatform": "local",
        "searchSpacePath": "space.json",
        "useAnnotation": False,
        "nniManagerIp": "10.0.0.1",
        "logLevel": "debug",
        "tuner": {"builtinTunerName": "TPE", "classArgs": {"optimize_mode": "maximize", "seed": 7},
                  "gpuIndices": "0,1"},
        "assessor": {"builtinAssessorName": "Medianstop", "classArgs": {"start_step": 3}},
        "trial": {"command": "python3 train.py", "codeDir": "code", "gpuNum": 1},
        "localConfig": {"useActiveGpu": True, "maxTrialNumPerGpu": 2, "gpuIndices": "0,1"},
    }


@pytest.fixture
def farm() -> Iterator[None]:
    register("farm", "config_farm_platform:FarmTrainingService")
    yield
    unregister("farm")


@pytest.fixture
def errors_of(folder: Path) -> Callable[..., list[ConfigError]]:
    """All errors of a config; fails where there are none."""

    def errors_of(source: Any, **options: Any) -> list[ConfigError]:
        options.setdefault("base_directory", folder)
        with pytest.raises(ConfigInvalid) as caught:
            parse_experiment_config(source, **options)
        assert caught.value.errors
        return caught.value.errors

    return errors_of
