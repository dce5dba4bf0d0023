"""An experiment that permits changes to its code has a copy of it from the launch on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.models import Cluster, CodeArchive, Experiment


def launch(api: Any, config: str, **more: Any) -> Any:
    return api.post("/api/v1/experiments/", {"config": config + "codeVariants: {paths: ['*.py']}\n", **more})


def test_the_code_is_kept_and_trials_without_changes_run_in_its_folder_still(api, config, code_folder) -> None:
    assert api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)}).status_code == 201
    assert Experiment.objects.get().code is None
    answer = launch(api, config, base_directory=str(code_folder))
    assert answer.status_code == 201, answer.content
    experiment = Experiment.objects.latest("pk")
    assert experiment.code == CodeArchive.objects.get()
    assert experiment.code_folder == str(code_folder)
    assert answer.json()["config"]["codeVariants"] == {"paths": ["*.py"], "maxBytes": 65536}
    trial = api.post(f"/api/v1/experiments/{experiment.public_id}/trials/", {
        "parameters": {"x": 0.5}, "variant": {"files": {"trial.py": "print('changed')\n"}}}, format="json")
    assert trial.json()["variant"]["files"] == 1


def test_a_clone_permits_the_same_changes(api, config, code_folder) -> None:
    launched = launch(api, config, base_directory=str(code_folder)).json()
    clone = api.get(f"/api/v1/experiments/{launched['id']}/clone/").json()
    assert "codeVariants" in clone["config"]
    again = api.post("/api/v1/experiments/", {"config": clone["config"], "code_of": clone["code_of"]})
    assert again.status_code == 201, again.content
    assert again.json()["config"]["codeVariants"] == launched["config"]["codeVariants"]
    assert Experiment.objects.latest("pk").code == CodeArchive.objects.get()


def test_without_code_there_is_nothing_that_could_be_changed(api, config) -> None:
    text = config.replace("searchSpaceFile: search_space.json", "searchSpace: {x: {_type: choice, _value: [1]}}")
    answer = launch(api, text)
    assert answer.status_code == 400
    assert [(error["field"], "There is no code" in error["message"]) for error in answer.json()["errors"]] == [
        ("codeVariants", True)]
    assert not Experiment.objects.exists()


@pytest.mark.usefixtures("vault")
def test_a_platform_that_does_not_know_of_them_is_refused(api, config, code_folder: Path) -> None:
    Cluster.objects.create(name="cellar", platform="vault", settings={"address": "x"})
    text = config.replace("trainingService:\n  platform: local\n", "cluster: cellar\n")
    answer = launch(api, text, base_directory=str(code_folder))
    assert answer.status_code == 400
    assert [(error["field"], error["message"]) for error in answer.json()["errors"]] == [
        ("codeVariants", "Trials on the platform vault cannot have variants of the code. Remove codeVariants, or "
                         "choose another platform.")]
