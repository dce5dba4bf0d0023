"""nodes and gpusPerNode in experiment files: where they mean something, and what is said where they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config

MACHINE = {"host": "10.0.0.5", "user": "me", "hostKey": "SHA256:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg"}
SECTIONS = [{"platform": "local"}, {"platform": "slurm", "workingFolder": "/home/me/nniweb"},
            {"platform": "remote", "machineList": [MACHINE]}]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section["platform"])
def test_a_trial_asks_for_the_gpus_of_all_nodes(folder: Path, v2: dict[str, Any], section: dict[str, Any]) -> None:
    v2 |= {"trialGpuNumber": 1, "trainingService": {**section, "nodes": 3}}
    found = parse_experiment_config(v2, folder).settings.training_service
    assert found is not None
    assert (found.options.gpus_of_a_node(1), found.options.gpus_of_a_trial(1)) == (1, 3)
    v2["trainingService"]["gpusPerNode"] = 2
    found = parse_experiment_config(v2, folder).settings.training_service
    assert found is not None
    assert (found.options.gpus_of_a_node(1), found.options.gpus_of_a_trial(1)) == (2, 6)


@pytest.mark.parametrize("field", ["nodes", "gpusPerNode"])
@pytest.mark.parametrize("section", [
    {"platform": "kubernetes", "worker": {"dockerImage": "a"}}, {"platform": "openpai", "host": "https://pai.example",
                                                                "username": "me", "token": "secret"},
    {"platform": "command", "workingFolder": "/home/me", "submitCommand": "a", "statusCommand": "b",
     "cancelCommand": "c"}], ids=lambda section: section["platform"])
def test_other_platforms_name_the_field_and_what_to_do(folder: Path, v2: dict[str, Any], section: dict[str, Any],
                                                       field: str) -> None:
    v2["trainingService"] = {**section, field: 2}
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(v2, folder)
    [error] = [error for error in refusal.value.errors if field in error.field]
    assert error.field == f"trainingService.{field}"
    assert "is for the platforms local, remote and slurm" in error.message


@pytest.mark.parametrize(("field", "value", "said"), [
    ("nodes", 0, "at least 1"), ("nodes", 1001, "at most 1000"), ("nodes", "many", "number"),
    ("gpusPerNode", -1, "at least 0")])
def test_a_wrong_number_is_told_with_its_field(folder: Path, v2: dict[str, Any], field: str, value: Any,
                                               said: str) -> None:
    v2["trainingService"] = {"platform": "local", field: value}
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(v2, folder)
    [error] = refusal.value.errors
    assert error.field == f"trainingService.{field}"
    assert said in error.message


def test_the_address_of_a_machine_for_the_others_is_an_address(folder: Path, v2: dict[str, Any]) -> None:
    v2["trainingService"] = {"platform": "remote", "machineList": [{**MACHINE, "nodeAddress": "no blanks"}]}
    with pytest.raises(ConfigInvalid) as refusal:
        parse_experiment_config(v2, folder)
    assert "trainingService.machineList[0].nodeAddress" in [error.field for error in refusal.value.errors]
