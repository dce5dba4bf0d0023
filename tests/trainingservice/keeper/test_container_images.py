"""Whether a machine has an image: asked once for many trials, waited for, and said why not."""

import threading

import pytest

from trainingservice.errors import MustWait, PermanentError, TemporaryError
from trainingservice.keeper.agent_client import AgentGone
from trainingservice.keeper.container_images import FAILED_FOR, KNOWN_FOR, ContainerImages
from trainingservice.local.config import LocalTrialOptions

HERE = {"engine": "podman", "program": "/usr/bin/podman", "rootless": True, "problem": "", "detail": ""}
OPTIONS = LocalTrialOptions(docker_image="localhost/train:1", container_network="none")


class Machine:
    """An agent that answers with ``answer``, once ``may_answer`` is set."""

    def __init__(self):
        self.answer, self.asked, self.now, self.changes = HERE, [], 1000.0, 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.images = ContainerImages("gpu7", "remote", lambda: self, lambda: self.now, self.change)

    def image(self, image, engine, pull, timeout):
        self.asked.append((image, engine, pull))
        assert self.may_answer.wait(30)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def change(self):
        self.changes += 1

    def ask(self, options=OPTIONS, experiment="e1", patience=30.0):
        return self.images.container(options, experiment, patience)


@pytest.fixture
def machine():
    return Machine()


def test_without_an_image_nobody_is_asked(machine):
    assert machine.ask(LocalTrialOptions()) is None
    assert machine.asked == []


def test_a_keeper_is_told_all_that_it_needs_and_the_machine_is_asked_once_for_all_trials(machine):
    for _ in range(3):
        assert machine.ask() == {"image": "localhost/train:1", "engine": "podman", "program": "/usr/bin/podman",
                                 "rootless": True, "network": "none"}
    assert machine.asked == [("localhost/train:1", "auto", "missing")]
    machine.now += KNOWN_FOR + 1
    machine.ask()
    assert len(machine.asked) == 2


def test_a_trial_waits_while_the_image_is_pulled_and_is_told_when_it_has_come(machine):
    machine.may_answer.clear()
    with pytest.raises(MustWait) as caught:
        machine.ask(patience=0.01)
    assert caught.value.reason.code == "platform_prepares"
    assert "Waits until machine gpu7 has the image localhost/train:1" in str(caught.value)
    with pytest.raises(MustWait):
        machine.ask(patience=0.01)
    machine.may_answer.set()
    assert machine.ask()["engine"] == "podman"
    assert (len(machine.asked), machine.changes) == (1, 1)


@pytest.mark.parametrize(("problem", "engine", "code", "words"), [
    ("no_engine", "auto", "no_container_engine", "machine gpu7 has no podman or docker on its PATH. Install podman"),
    ("no_engine", "docker", "no_container_engine", "has no docker on its PATH"),
    ("engine_unusable", "docker", "container_engine_fails", "docker does not work on machine gpu7: it said so"),
    ("image_missing", "podman", "image_missing", "and imagePull: never forbids to pull it: it said so. Correct"),
    ("pull_failed", "podman", "image_missing", "and podman could not pull it: it said so. Correct dockerImage")])
def test_why_a_machine_cannot_run_an_image_is_a_code_and_a_sentence(machine, problem, engine, code, words):
    machine.answer = {**HERE, "problem": problem, "engine": engine, "detail": "it  said\nso."}
    with pytest.raises(PermanentError) as caught:
        machine.ask()
    assert caught.value.reason.code == code
    assert words in str(caught.value)


def test_after_a_failure_the_machine_is_asked_again_a_while_later(machine):
    machine.answer = {**HERE, "problem": "pull_failed"}
    for _ in range(2):
        with pytest.raises(PermanentError):
            machine.ask()
    assert len(machine.asked) == 1
    machine.now += FAILED_FOR + 1
    machine.answer = HERE
    assert machine.ask() is not None


def test_a_machine_that_cannot_be_asked_is_no_fault_of_the_image(machine):
    machine.answer = AgentGone("the agent is gone")
    with pytest.raises(TemporaryError, match="the agent is gone"):
        machine.ask()
    machine.answer = RuntimeError("a defect")
    machine.now += FAILED_FOR + 1
    with pytest.raises(TemporaryError, match="RuntimeError"):
        machine.ask()


def test_an_image_that_is_always_pulled_is_pulled_once_for_each_experiment(machine):
    always = LocalTrialOptions(docker_image="localhost/train:1", image_pull="always")
    for experiment in ("e1", "e1", "e2"):
        machine.ask(always, experiment)
        machine.now += KNOWN_FOR + 1
    assert machine.asked == [("localhost/train:1", "auto", "always")] * 2


def test_what_a_rehearsal_says(machine):
    assert machine.images.finding(OPTIONS, 30.0).ok
    machine.now += KNOWN_FOR + 1
    machine.answer = {**HERE, "problem": "no_engine"}
    finding = machine.images.finding(OPTIONS, 30.0)
    assert (finding.check, finding.machine, finding.blocks) == ("image", "gpu7", True)
    machine.now += KNOWN_FOR + 1
    machine.answer = AgentGone("gone")
    assert machine.images.finding(OPTIONS, 30.0).temporary
    machine.now += KNOWN_FOR + 1
    machine.may_answer.clear()
    finding = machine.images.finding(OPTIONS, 0.01)
    assert finding.ok
    assert "is being pulled" in finding.message
    machine.may_answer.set()
