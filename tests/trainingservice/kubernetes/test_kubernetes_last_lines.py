"""Where a trial failed without a word of its keeper or its pod, the last lines of the pod's log tell why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainingservice.errors import TemporaryError
from trainingservice.kubernetes.config import JobTrialOptions
from trainingservice.kubernetes_base import pod_logs, pod_template, pods
from trainingservice.kubernetes_base import service as service_module
from trainingservice.kubernetes_base.api import ApiRefusal
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.trial_job_status import TrialJobStatus


@pytest.fixture
def no_keeper(bench, monkeypatch):
    """Trials whose init container finds no keeper in its image."""
    monkeypatch.setattr(service_module, "SETTLE", 0.2)
    options = JobTrialOptions(worker=RoleSettings(docker_image="example/trial:1"), keeper_image="example/empty:1")
    bench.platform.options = lambda: options
    return bench


def test_an_init_container_that_fails_says_what_it_wrote(no_keeper) -> None:
    service = no_keeper.open_service()
    form = no_keeper.form("true")
    service.submit_trial_job(form)
    message = no_keeper.wait_for_status(service, form, TrialJobStatus.FAILED).message
    assert "nniweb-keeper" in message
    assert "ended with exit code 1. " in message
    assert "The last lines of its log: cp: " in message
    assert "/keeper.pyz" in message


def test_without_the_right_to_read_logs_the_rest_is_told(no_keeper, cluster) -> None:
    cluster.forbidden.add(("get", "pods/log"))
    service = no_keeper.open_service()
    form = no_keeper.form("true")
    service.submit_trial_job(form)
    message = no_keeper.wait_for_status(service, form, TrialJobStatus.FAILED).message
    assert message.endswith("ended with exit code 1. Job has reached the specified backoff limit.")


def test_a_pod_whose_keeper_cannot_call_tells_its_last_lines(bench, monkeypatch) -> None:
    monkeypatch.setattr(pod_template, "TIME_TO_DELIVER", 1)
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    form = replace(form, keeper=replace(form.keeper, urls=("http://127.0.0.1:9",)))
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    said = bench.wait("its keeper has written why", lambda: service.last_lines(form.job_name))
    assert "127.0.0.1:9" in said


def ended(phase: str = "Failed", **terminated) -> dict:
    state = {"state": {"terminated": terminated}} if terminated else {}
    return {"metadata": {"name": "p"}, "status": {"phase": phase, "containerStatuses": [{"name": "trial", **state}]}}


@pytest.mark.parametrize(("pod", "silent"), [
    (ended(exitCode=137, reason="OOMKilled"), "trial"),
    (ended(exitCode=1, message="python3: not found"), ""),
    (ended("Succeeded", exitCode=0), ""),
    (ended("Running", exitCode=1), ""),
    (ended(), "")])
def test_only_a_pod_that_ended_without_a_word_is_silent(pod, silent) -> None:
    assert pods.silent_container(pod, "trial") == silent


class Log:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def call(self, method, path, *, query):
        assert (method, path) == ("GET", "/api/v1/namespaces/n/pods/p/log")
        assert (query["container"], query["tailLines"]) == ("trial", "20")
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"text": self.answer}


@pytest.mark.parametrize(("answer", "told"), [
    ("one\n\n  two\tthree\n", "one two three"),
    (f"words\n{pod_logs.MARK}AAAA\nlast", "words last"),
    ("x" * 900, "x" * pod_logs.LAST_CHARACTERS),
    ("", ""),
    (ApiRefusal(404, "NotFound", "pods \"p\" not found"), ""),
    (TemporaryError("away"), "")])
def test_the_last_lines_are_one_line_and_no_journal(answer, told) -> None:
    assert pod_logs.last_lines(Log(answer), "n", "p", "trial") == told
