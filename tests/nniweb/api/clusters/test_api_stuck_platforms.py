"""A platform that never returns, or fails in its own way, while somebody waits for an answer: it gets one."""

import threading
import time

import pytest
from django.db import connections

from nniweb.experiments.clusters import platform_calls
from nniweb.experiments.models import Cluster, Experiment, User
from nniweb.experiments.models.account import Role
from tests.nniweb.api.clusters.stuck_platform import StuckTrainingService
from trainingservice.platforms import register, unregister


@pytest.fixture(autouse=True)
def stuck(monkeypatch):
    """The platform; patience for it is short."""
    register("stuck", "tests.nniweb.api.clusters.stuck_platform:StuckTrainingService")
    monkeypatch.setattr(StuckTrainingService, "released", threading.Event())
    monkeypatch.setattr(platform_calls, "BRIEF", 0.2)
    monkeypatch.setattr(platform_calls, "PATIENT", 0.2)
    monkeypatch.setattr(platform_calls, "_hanging", platform_calls.Counter())
    monkeypatch.setattr(platform_calls, "_under_way", platform_calls.Counter())
    yield
    StuckTrainingService.released.set()
    unregister("stuck")


@pytest.fixture
def launch(api, config, code_folder):
    def launch(part: str, end: str = ""):
        text = config.replace("platform: local", f"platform: stuck\n  part: {part}")
        return api.post(f"/api/v1/experiments/{end}", {"config": text, "base_directory": str(code_folder)})
    return launch


@pytest.fixture
def check_as(as_user):
    """Checks a launch of this person on the platform."""
    def check_as(person: User, part: str):
        config = {"searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true",
                  "trialConcurrency": 1, "trialCodeDirectory": None, "tuner": {"name": "Random"},
                  "trainingService": {"platform": "stuck", "part": part}}
        return as_user(person).post("/api/v1/experiments/check/", {"config": config})
    return check_as


@pytest.mark.parametrize(("part", "words"), [
    ("constructor", "The platform stuck has not answered within"),
    ("rehearsal", "The platform stuck has not answered within"),
    ("broken constructor", "The platform stuck failed: RuntimeError: a defect"),
    ("broken rehearsal", "The platform stuck failed: RuntimeError: a defect")])
def test_a_launch_and_its_check_are_answered_and_say_what_is_wrong(launch, part, words) -> None:
    finding, of_the_script = launch(part, "check/").json()["findings"]
    assert of_the_script["ok"]
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


def said(answer) -> str:
    return answer.json()["findings"][0]["message"]


def is_soon(condition) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_a_platform_that_hangs_each_time_is_not_called_without_end(launch, check_as, ada, monkeypatch) -> None:
    monkeypatch.setattr(platform_calls, "MOST_HANGING", 4)
    people = [User.objects.create_user(f"p{number}", role=Role.MEMBER) for number in range(2)]
    for person in [*people, *people]:
        assert "has not answered" in said(check_as(person, "rehearsal"))
    assert "4 calls to the platform stuck have not returned" in said(check_as(ada, ""))
    StuckTrainingService.released.set()
    assert is_soon(lambda: not platform_calls._hanging)
    assert launch("", "check/").json()["findings"][0]["ok"]


def test_one_person_s_calls_that_hang_keep_nobody_else_from_the_platform(check_as, alice, bob) -> None:
    for _ in range(platform_calls.MOST_HANGING_OF_PERSON):
        assert "has not answered" in said(check_as(alice, "rehearsal"))
    for _ in range(3):
        assert "of your calls to the platform stuck have not returned" in said(check_as(alice, "rehearsal"))
    assert check_as(bob, "").json()["findings"][0]["ok"]


@pytest.mark.django_db(transaction=True)
def test_one_person_has_no_more_than_a_share_of_the_calls_that_are_waited_for(check_as, alice, bob,
                                                                               monkeypatch) -> None:
    monkeypatch.setattr(platform_calls, "BRIEF", 60.0)
    answers = []

    def check() -> None:
        answers.append(said(check_as(alice, "rehearsal")))
        connections.close_all()

    threads = [threading.Thread(target=check) for _ in range(platform_calls.MOST_OF_PERSON)]
    for thread in threads:
        thread.start()
    assert is_soon(lambda: platform_calls._under_way[alice.pk] == len(threads))
    assert "of your calls to platforms are in progress" in said(check_as(alice, ""))
    assert check_as(bob, "").json()["findings"][0]["ok"]
    StuckTrainingService.released.set()
    for thread in threads:
        thread.join(30)
    assert len(answers) == len(threads)
    assert "in progress" not in " ".join(answers)
    assert not platform_calls._under_way, "nothing stays counted"
    assert check_as(alice, "").json()["findings"][0]["ok"]



def test_a_server_that_is_short_of_threads_says_so_and_goes_on_afterwards(check_as, alice, monkeypatch) -> None:
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == "call of stuck":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    for _ in range(platform_calls.MOST_OF_PERSON + 1):
        assert "no thread, process or memory to spare" in said(check_as(alice, ""))
    monkeypatch.setattr(threading.Thread, "start", real)
    assert check_as(alice, "").json()["findings"][0]["ok"]
