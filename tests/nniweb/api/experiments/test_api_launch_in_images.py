"""What a launch says of trials that run in an image on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.models import Cluster, Experiment
from tests.fakes.scripted_container_engine import ScriptedContainerEngine

IMAGE = "localhost/train:1"


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedContainerEngine:
    return ScriptedContainerEngine(tmp_path / "engine", monkeypatch, images=(IMAGE,))


@pytest.fixture
def launch(api: Any, config: str, code_folder: Path) -> Any:
    def send(options: str, more: str = "") -> Any:
        text = config.replace("  platform: local\n", f"  platform: local\n{options}") + more
        return api.post("/api/v1/experiments/", {"config": text, "base_directory": str(code_folder)})

    return send


def errors(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 400, answer.content
    return [(error["field"], error["message"]) for error in answer.json()["errors"]]


def test_an_image_that_is_there_is_taken_and_what_the_machine_lacks_does_not_count(launch, client, admin) -> None:
    answer = launch(f"  dockerImage: {IMAGE}\n")
    assert answer.status_code == 201, answer.content
    assert answer.json()["config"]["trainingService"]["dockerImage"] == IMAGE
    assert Experiment.objects.get().trial_options["dockerImage"] == IMAGE


def test_an_image_that_cannot_be_had_is_told_before_anything_is_created(launch) -> None:
    (field, said), = errors(launch("  dockerImage: localhost/none:1\n"))
    assert field == "trainingService"
    assert "does not have the image localhost/none:1, and podman could not pull it" in said
    assert not Experiment.objects.exists()


def test_trials_in_an_image_are_not_warm(launch) -> None:
    (field, said), = errors(launch(f"  dockerImage: {IMAGE}\n", "warmStart: true\n"))
    assert (field, "cannot be forked from a process of the machine" in said) == ("warmStart", True)


def test_mlflow_needs_the_machine_s_network(launch) -> None:
    metrics = "metrics: {mlflow: true, result: loss}\n"
    (field, said), = errors(launch(f"  dockerImage: {IMAGE}\n", metrics))
    assert (field, "containerNetwork: host" in said) == ("metrics", True)
    answer = launch(f"  dockerImage: {IMAGE}\n  containerNetwork: host\n", metrics)
    assert answer.status_code == 201, answer.content


def test_what_an_administrator_does_not_permit_is_refused_with_what_is(launch) -> None:
    assert launch("").status_code == 201
    cluster = Cluster.objects.get()
    cluster.metadata.create(key="local_config", value='{"containers": {"images": ["docker.io/*"]}}')
    (_, said), = errors(launch(f"  dockerImage: {IMAGE}\n"))
    assert f'dockerImage may not be "{IMAGE}"; permitted are "docker.io/*"' in said
