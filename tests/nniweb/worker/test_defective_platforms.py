"""One worker drives clusters of defective platforms beside a sound one, whose trials go on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, Worker
from nniweb.worker.supervisor import Supervisor
from tests.nniweb.worker.conftest import report
from tests.trialkeeper.keeper_run import wait_until
from trainingservice import platforms
from trainingservice.testing import misbehaving

pytestmark = pytest.mark.django_db(transaction=True)


def raises(*_: object) -> None:
    raise KeyError("no such row")


def exits(*_: object) -> None:
    sys.exit(3)


def answers_nonsense(*_: object) -> object:
    return 3


#: The defective member, what it does, and what is said of it.
DEFECTS: list[tuple[str, Callable[..., object], str]] = [
    *((method, raises, "KeyError: 'no such row'") for method in (
        "__init__", "resume_trial_jobs", "run", "submit_trial_job", "list_trial_jobs")),
    *((method, exits, "SystemExit: 3") for method in (
        "__init__", "resume_trial_jobs", "run", "submit_trial_job", "list_trial_jobs")),
    ("submit_trial_job", answers_nonsense,
     "WrongAnswer: it returned a value of the type int instead of a TrialJobDetail"),
    ("list_trial_jobs", answers_nonsense, "WrongAnswer: it returned a value of the type int instead of a list")]


@pytest.fixture
def defective(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[str, str]]]:
    """Platforms, each with one defect: name -> the defective member, and what is said of it."""
    found = {}
    for number, (method, defect, said) in enumerate(DEFECTS):
        name = f"defective{number}"
        made = type(f"Defective{number}", (misbehaving.DocileTrainingService,), {
            method: defect, "platform": name, "__module__": misbehaving.__name__})
        monkeypatch.setattr(misbehaving, made.__name__, made, raising=False)
        platforms.register(name, f"{misbehaving.__name__}:{made.__name__}")
        found[name] = (method, said)
    platforms.register("docile", f"{misbehaving.__name__}:DocileTrainingService")
    yield found
    for name in (*found, "docile"):
        platforms.unregister(name)


@pytest.fixture
def supervisor(defective: object) -> Iterator[Supervisor]:
    supervisor = Supervisor()
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    yield supervisor
    supervisor.stop()
    thread.join(60)
    assert not thread.is_alive(), "the worker stops as always"


@pytest.mark.slow
def test_defects_of_platforms_are_said_on_their_clusters_and_the_trials_of_another_cluster_go_on(
        supervisor: Supervisor, defective: dict[str, tuple[str, str]], make_experiment) -> None:
    for name in defective:
        cluster = Cluster.objects.create(name=name, platform=name)
        make_experiment(cluster=cluster, name=name, status="INITIALIZED", trial_concurrency=1)

    def words(name: str) -> str:
        method, said = defective[name]
        return f"The platform's code failed in {method} ({said}). See the log."

    def is_said(name: str) -> bool:
        cluster = Cluster.objects.get(name=name)
        return cluster.reason == "service_defect" and cluster.message == words(name) and cluster.health != "good"

    wait_until(lambda: all(is_said(name) for name in defective), 90)
    sound = Cluster.objects.create(name="sound", platform="docile")
    experiment = make_experiment(cluster=sound, name="fine", status="INITIALIZED", trial_concurrency=1,
                                 max_trial_number=3)
    reported: set[int] = set()

    def goes_on() -> bool:
        for attempt in Attempt.objects.filter(trial__experiment=experiment, stage="submitted").exclude(
                pk__in=reported).select_related("trial"):
            report(attempt.trial, 0.5, journal=f"journal {attempt.pk}")
            reported.add(attempt.pk)
        return Experiment.objects.get(pk=experiment.pk).status == "DONE"

    wait_until(goes_on, 90)
    connection.close()
    trials = Trial.objects.filter(experiment=experiment)
    assert sorted(trials.values_list("status", flat=True)) == ["SUCCEEDED"] * 3
    sound.refresh_from_db()
    assert (sound.reason == "service_defect", "failed" in sound.message) == (False, False)
    assert all(is_said(name) for name in defective), "still"
    others = Trial.objects.exclude(experiment=experiment)
    assert not others.exclude(status="WAITING").exists(), "no trial fails by it"
    assert Worker.objects.count() == 1
