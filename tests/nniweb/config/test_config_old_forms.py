"""Fields of NNI's old files: each works, has its note, or is refused with the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import parse_experiment_config, resolved_document


@pytest.mark.parametrize("field", ["tuner", "assessor"])
def test_the_number_of_gpus_of_an_algorithm_has_its_note(folder: Path, v1: dict[str, Any], field: str) -> None:
    v1[field]["gpuNum"] = 1
    assert any(note.startswith(f"{field}.gpuNum: has no effect") for note in parse_experiment_config(v1, folder).notes)


@pytest.mark.parametrize(("written", "seconds"), [("7d", 7 * 86400), ("2400h", 2400 * 3600), ("99999d", 2**31 - 1),
                                                  ("4294967296s", 2**31 - 1)])
def test_long_durations_are_taken(folder: Path, v1: dict[str, Any], written: str, seconds: int) -> None:
    v1["maxExecDuration"] = written
    settings = parse_experiment_config(v1, folder).settings
    assert settings.max_experiment_duration == seconds
    again = parse_experiment_config(resolved_document(settings), folder).settings
    assert again.max_experiment_duration == seconds


def test_intermediate_results_for_the_tuner_are_kept_in_every_form(folder: Path, v1: dict[str, Any]) -> None:
    v1["tuner"]["includeIntermediateResults"] = True
    settings = parse_experiment_config(v1, folder).settings
    assert settings.tuner.include_intermediate_results is True
    assert resolved_document(settings)["tuner"]["includeIntermediateResults"] is True
    v1["tuner"]["includeIntermediateResults"] = False
    settings = parse_experiment_config(v1, folder).settings
    assert "includeIntermediateResults" not in resolved_document(settings)["tuner"]


STORAGE = {"storageType": "NFS", "localMountPoint": "/mnt/here", "localMounted": "nomount",
           "nfsServer": "files.example", "exportedDirectory": "/export"}
MACHINE = {"host": "box.example", "user": "ada", "password": "secret"}


@pytest.mark.parametrize(("written", "kept"), [("share/nni", "share/nni"), ("./share/", "share"), ("~/share", "share"),
                                               ("/mnt/share/", "/mnt/share")])
def test_a_share_may_be_mounted_below_the_home_folder_of_machines(folder: Path, v2: dict[str, Any], written: str,
                                                                  kept: str) -> None:
    v2 |= {"trainingService": {"platform": "remote", "machineList": [MACHINE]},
           "sharedStorage": {**STORAGE, "remoteMountPoint": written}}
    settings = parse_experiment_config(v2, folder).settings
    assert settings.shared_storage is not None
    assert settings.shared_storage.remote_mount_point == kept
    assert settings.shared_storage.at_home("/home/ada").remote_mount_point == (
        kept if kept.startswith("/") else f"/home/ada/{kept}")


@pytest.mark.parametrize("written", ["", "/", ".", "../share", "~/../share", "~ada/share"])
def test_a_mount_point_that_is_no_folder_of_ones_own_is_refused(v2: dict[str, Any], errors_of: Callable[..., Any],
                                                                 written: str) -> None:
    v2 |= {"trainingService": {"platform": "remote", "machineList": [MACHINE]},
           "sharedStorage": {**STORAGE, "remoteMountPoint": written}}
    assert [error.field for error in errors_of(v2)] == ["sharedStorage.remoteMountPoint"]


def test_where_nothing_is_mounted_a_relative_mount_point_is_refused(v2: dict[str, Any], errors_of: Callable[..., Any]
                                                                    ) -> None:
    v2["sharedStorage"] = {**STORAGE, "remoteMountPoint": "share"}
    [error] = errors_of(v2)
    assert error.field == "sharedStorage.remoteMountPoint"
    assert "must be an absolute path here" in error.message
