"""Experiment files for AdaptDL: NNI's form and our own, code in the image, and what AdaptDL cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, ParsedConfig, parse_experiment_config
from trainingservice.adl.config import AdlTrialOptions


@pytest.fixture
def adl(v2: dict[str, Any]) -> dict[str, Any]:
    del v2["trialGpuNumber"]
    return v2 | {"trainingService": {"platform": "adl", "dockerImage": "example/trial:1"}}


def options(parsed: ParsedConfig) -> AdlTrialOptions:
    section = parsed.settings.training_service
    assert section is not None
    assert isinstance(section.options, AdlTrialOptions)
    return section.options


def test_both_forms_say_the_same(folder: Path, v1: dict[str, Any], adl: dict[str, Any]) -> None:
    del v1["localConfig"]
    v1 |= {"trainingServicePlatform": "adl", "trial": {
        "namespace": "lab", "command": "python3 main.py", "codeDir": "/cifar10", "gpuNum": 1, "cpuNum": 2,
        "memorySize": "8Gi", "image": "example/trial:1", "imagePullSecrets": [{"name": "staging"}], "adaptive": True,
        "nfs": {"server": "10.0.0.2", "path": "/", "containerMountPath": "/nfs"},
        "checkpoint": {"storageClass": "dfs", "storageSize": "1Gi"}}}
    adl["trainingService"] |= {
        "namespace": "lab", "codeDirectoryInImage": "/cifar10", "cpuNumber": 2, "memorySize": 8192, "adaptive": True,
        "imagePullSecrets": [{"name": "staging"}],
        "nfs": {"server": "10.0.0.2", "path": "/", "containerMountPath": "/nfs"},
        "checkpoint": {"storageClass": "dfs", "storageSize": "1Gi"}}
    adl.pop("trialCodeDirectory", None)
    old, new = parse_experiment_config(v1, folder).settings, parse_experiment_config(adl, folder).settings
    assert old.training_service == new.training_service
    assert (old.trial_gpu_number, old.trial_command) == (1, "python3 main.py")


def test_code_of_the_image_is_not_looked_for_on_the_server(folder: Path, v1: dict[str, Any]) -> None:
    del v1["localConfig"]
    v1 |= {"trainingServicePlatform": "adl", "trial": {
        "command": "python3 main.py", "codeDir": "/no/such/folder/here", "gpuNum": 0, "image": "example/trial:1"}}
    parsed = parse_experiment_config(v1, folder)
    assert parsed.settings.trial_code_directory is None
    assert options(parsed).code_in_image() == "/no/such/folder/here"


def test_code_is_sent_where_the_image_is_not_said_to_have_it(folder: Path, adl: dict[str, Any]) -> None:
    parsed = parse_experiment_config(adl, folder)
    assert options(parsed).code_in_image() == ""
    assert parsed.settings.trial_code_directory is not None


@pytest.mark.parametrize(("more", "field", "words"), [
    ({"trainingService": {"codeDirectoryInImage": "/code"}, "trialCodeDirectory": "code"}, "trialCodeDirectory",
     "must be left out where codeDirectoryInImage"),
    ({"trainingService": {"minReplicas": 4, "maxReplicas": 2}}, "trainingService", "maxReplicas must be at least"),
    ({"trainingService": {"checkpoint": {"storageSize": "much"}}}, "trainingService.checkpoint.storageSize",
     "must be a quantity of Kubernetes such as 1Gi"),
    ({"trainingService": {"nfs": {"server": "s", "path": "/p"}}}, "trainingService.nfs.containerMountPath",
     "is required"),
    ({"trainingService": {"nfs": {"server": "s", "path": "/p", "containerMountPath": "nfs"}}},
     "trainingService.nfs.containerMountPath", "must be an absolute path in the container"),
    ({"trainingService": {"imagePullSecrets": [{"name": "Not_A_Name"}]}}, "trainingService.imagePullSecrets[0].name",
     "must be 1 to 253 small letters"),
    ({"trainingService": {"runPolicy": {"ttlSecondsAfterFinished": 5, "suspend": True}}}, "trainingService",
     "AdaptDL has no runPolicy; leave ttlSecondsAfterFinished, suspend out"),
])
def test_what_cannot_be_is_refused_at_its_field(folder: Path, adl: dict[str, Any], more: dict[str, Any], field: str,
                                                words: str) -> None:
    adl |= {**more, "trainingService": {**adl["trainingService"], **more["trainingService"]}}
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(adl, folder)
    assert {error.field: error.message for error in refusal.value.errors}[field].startswith(words)


@pytest.mark.parametrize(("more", "gpus"), [
    ({}, 2), ({"gpuNumber": 1}, 1), ({"minReplicas": 3}, 6), ({"minReplicas": 0, "maxReplicas": 9}, 2)])
def test_a_quota_counts_the_gpus_that_a_trial_has_at_least(folder: Path, adl: dict[str, Any], more: dict[str, int],
                                                           gpus: int) -> None:
    adl["trainingService"] |= more
    assert options(parse_experiment_config(adl, folder)).gpus_of_a_trial(2) == gpus
