"""A platform that never returns, or fails in its own way, while somebody waits for an answer: it gets one."""

import threading

import pytest

from nniweb.experiments import platform_calls
from nniweb.experiments.models import Cluster, Experiment
from tests.nniweb.api.stuck_platform import StuckTrainingService
from trainingservice.platforms import register, unregister


@pytest.fixture(autouse=True)
def stuck(monkeypatch):
    """The platform; patience for it is short."""
    register("stuck", "tests.nniweb.api.stuck_platform:StuckTrainingService")
    monkeypatch.setattr(StuckTrainingService, "released", threading.Event())
    monkeypatch.setattr(platform_calls, "BRIEF", 0.2)
    monkeypatch.setattr(platform_calls, "PATIENT", 0.2)
    monkeypatch.setattr(platform_calls, "_hanging", platform_calls.Counter())
    yield
    StuckTrainingService.released.set()
    unregister("stuck")


@pytest.fixture
def launch(api, config, code_folder):
    def launch(part: str, end: str = ""):
        text = config.replace("platform: local", f"platform: stuck\n  part: {part}")
        return api.post(f"/api/v1/experiments/{end}", {"config": text, "base_directory": str(code_folder)})
    return launch


@pytest.mark.parametrize(("part", "words"), [
    ("constructor", "The platform stuck has not answered within"),
    ("rehearsal", "The platform stuck has not answered within"),
    ("broken constructor", "The platform stuck failed: RuntimeError: a defect"),
    ("broken rehearsal", "The platform stuck failed: RuntimeError: a defect")])
def test_a_launch_and_its_check_are_answered_and_say_what_is_wrong(launch, part, words) -> None:
    [finding] = launch(part, "check/").json()["findings"]
    assert (finding["ok"], finding["temporary"]) == (False, True)
    assert words in finding["message"]
    assert launch(part).status_code == 201
    assert Experiment.objects.count() == 1


@pytest.mark.parametrize("part", ["constructor", "rehearsal", "broken constructor", "broken rehearsal"])
def test_a_rehearsal_is_answered_with_what_is_wrong(api, launch, part) -> None:
    launch(part)
    [finding] = api.post(f"/api/v1/clusters/{Cluster.objects.get().public_id}/actions/rehearse/").json()
    assert (finding["ok"], "The platform stuck" in finding["message"]) == (False, True)


@pytest.mark.parametrize("part", ["metadata", "broken metadata"])
def test_metadata_that_the_platform_does_not_take_are_refused(api, part) -> None:
    made = api.post("/api/v1/clusters/", {"name": "odd", "platform": "stuck", "settings": {"part": part}})
    assert made.status_code == 201
    answer = api.put(f"/api/v1/clusters/{Cluster.objects.get().public_id}/metadata/note/", {"value": "x"})
    assert answer.status_code == 400
    assert "The platform stuck" in answer.json()["errors"][0]["message"]


def test_a_platform_that_hangs_each_time_is_not_called_without_end(launch) -> None:
    for _ in range(platform_calls.MOST_HANGING):
        assert "has not answered" in launch("rehearsal", "check/").json()["findings"][0]["message"]
    assert "calls of the platform stuck have not come back" in launch("", "check/").json()["findings"][0]["message"]
    StuckTrainingService.released.set()
    deadline = threading.Event()
    for _ in range(600):
        if not platform_calls._hanging["stuck"]:
            break
        deadline.wait(0.05)
    assert launch("", "check/").json()["findings"][0]["ok"]
