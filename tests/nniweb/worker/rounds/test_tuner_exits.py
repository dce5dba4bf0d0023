"""Custom tuners of experiments that are over: what they receive where the server or their process ended before that."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.lifecycle.tuner_events import append_events
from nniweb.experiments.models import Cluster, Experiment, ExperimentEvent
from nniweb.worker import supervisor
from nniweb.worker.rounds.telling.tuner_exits import MOST_TRIES, make_up_for_exits
from tests.nniweb.worker.conftest import Rig, report
from tests.nniweb.worker.rounds.test_end_of_own_tuners import TUNER, notes, status

FAILING = """
class Failing(Slow):
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        raise ValueError("not this one")

class Endless(Slow):
    def _on_exit(self):
        self.note("exit")
        time.sleep(3600)
"""
ALL = [*(f"result {number}" for number in range(3)), "exit"]


@pytest.fixture
def tuner(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    (tmp_path / "mine.py").write_text(TUNER + FAILING)
    return lambda name="Slow", seconds=0.0: {
        "class_name": f"mine.{name}", "code_directory": str(tmp_path), "class_args": {"seconds": seconds}}


def tries(experiment: Experiment) -> int | None:
    return Experiment.objects.values_list("tuner_exit_tries", flat=True).get(pk=experiment.pk)


def said(experiment: Experiment) -> list[str]:
    return list(ExperimentEvent.objects.filter(experiment=experiment, kind="tuner").values_list("message", flat=True))


def again(attempt: int, why: str) -> str:
    return (f"The tuner is created again and told of the end (attempt {attempt} of {MOST_TRIES}), because {why} before "
            "it had received everything.")


def made_done(rig: Rig, tuner: dict[str, Any]) -> Experiment:
    """An experiment of three trials that has just become DONE."""
    experiment = rig.experiment(tuner=tuner, trial_concurrency=3, max_trial_number=3)
    for trial in rig.submitted(experiment, 3):
        report(trial, 1.0)
    rig.until(lambda: status(experiment) == "DONE")
    return experiment


def left_behind(rig: Rig, tuner: dict[str, Any], **fields: Any) -> Experiment:
    """An experiment as a server leaves it that is killed just after the end."""
    now = timezone.now()
    experiment = rig.experiment(**{"tuner": tuner, "status": "DONE", "started_at": now, "ended_at": now, "next_ask": 3,
                                   "tuner_exit_tries": 1, **fields})
    append_events(experiment, [{"event": "ask", "number": number, "parameters": {"x": number}}
                               for number in range(3)], now)
    append_events(experiment, [{"event": "tell", "number": number, "parameters": {"x": number}, "value": 1.0,
                                "status": "SUCCEEDED", "trial": f"trial{number}", "result": "1.0"}
                               for number in range(3)], now)
    return experiment


def kill_exiting(rig: Rig) -> None:
    [exiting] = rig.tuner_client._exiting
    os.kill(exiting.pid, signal.SIGKILL)


def test_the_mark_comes_with_the_end_and_goes_with_the_tuner(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = made_done(rig, tuner(seconds=0.3))
    assert tries(experiment) == 1
    rig.until(lambda: tries(experiment) is None)
    assert notes(tmp_path)[-1] == "exit"
    assert said(experiment) == []


def test_an_experiment_with_a_built_in_tuner_has_no_mark(make_rig) -> None:
    rig = make_rig()
    assert tries(made_done(rig, {"name": "Random"})) is None


def test_a_tuner_that_failed_is_not_told_of_the_end(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Failing"), trial_concurrency=1, max_trial_number=3)
    report(rig.submitted(experiment, 1)[0], 1.0)
    rig.until(lambda: status(experiment) == "ERROR")
    assert tries(experiment) is None
    assert said(experiment) == ["The tuner and the assessor are told nothing more, and _on_exit was not called. "
                                "Results that did not arrive: 1. Trials that had not ended: 0."]


def test_a_tuner_whose_server_was_killed_receives_everything_once_more(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = left_behind(rig, tuner())
    rig.until(lambda: tries(experiment) is None)
    assert notes(tmp_path) == ["begin", *ALL]
    assert status(experiment) == "DONE"
    assert said(experiment) == [again(2, "the server ended")]


def test_an_assessor_whose_server_was_killed_is_told_of_the_end(make_rig, tuner, tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(
        "import pathlib\nfrom nni.assessor import Assessor\nclass Judge(Assessor):\n"
        "    def assess_trial(self, trial, results):\n        return True\n"
        "    def _on_exit(self):\n        pathlib.Path(__file__).with_name('notes.txt').write_text('exit')\n")
    rig = make_rig()
    experiment = left_behind(rig, {"name": "Random"}, assessor={
        "class_name": "judge.Judge", "code_directory": str(tmp_path)})
    rig.until(lambda: tries(experiment) is None)
    assert notes(tmp_path) == ["exit"]


def test_a_tuner_whose_process_dies_at_the_end_receives_everything_once_more(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = made_done(rig, tuner(seconds=0.6))
    kill_exiting(rig)
    rig.until(lambda: tries(experiment) is None)
    assert notes(tmp_path)[-5:] == ["begin", *ALL]
    assert said(experiment) == [again(2, "its process died (killed by SIGKILL)")]


def test_a_tuner_is_not_told_for_ever(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = left_behind(rig, tuner(seconds=3600.0), tuner_exit_tries=MOST_TRIES - 1)
    rig.until(lambda: tries(experiment) == MOST_TRIES)
    kill_exiting(rig)
    rig.until(lambda: tries(experiment) is None)
    assert said(experiment) == [
        again(5, "the server ended"),
        "The tuner was told 5 times that the experiment is over. Each time its process or the server ended before it "
        "had finished. Up to 3 results did not arrive, and _on_exit was not called."]


@pytest.mark.parametrize(("name", "seconds", "words"), [
    ("Slow", 3600.0, "3 results did not arrive, and _on_exit was not called."),
    ("Endless", 0.0, "All results had arrived, but _on_exit had not returned.")])
def test_what_takes_too_long_is_among_the_experiments_events(
        make_rig, tuner, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float, words: str) -> None:
    rig = make_rig()
    monkeypatch.setattr(rig.tuner_client, "_exit_seconds", 1.0)
    experiment = made_done(rig, tuner(name, seconds))
    rig.until(lambda: tries(experiment) is None)
    assert said(experiment) == ["The tuner was ended, because it needed too long after the end of the experiment "
                                f"(NNIWEB_TUNER_EXIT_SECONDS). {words}"]


def test_a_history_that_takes_too_long_says_how_much_may_be_lost(
        make_rig, tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_rig()
    monkeypatch.setattr(rig.tuner_client, "_exit_seconds", 0.5)
    experiment = left_behind(rig, tuner(seconds=3600.0))
    rig.until(lambda: tries(experiment) is None)
    assert said(experiment)[1].endswith("Up to 3 results did not arrive, and _on_exit was not called.")


def test_what_the_tuner_raises_when_it_is_told_again_is_among_the_experiments_events(make_rig, tuner) -> None:
    rig = make_rig()
    experiment = left_behind(rig, tuner("Failing"))
    rig.until(lambda: tries(experiment) is None)
    assert said(experiment)[1:] == [
        "When the experiment was over, its tuner or assessor failed: ValueError: not this one"]
    assert status(experiment) == "DONE"


def test_the_tuner_of_a_deleted_experiment_is_not_created_again(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    deleted = left_behind(rig, tuner("Endless"))
    intents.delete(deleted)
    other = left_behind(rig, tuner())
    rig.until(lambda: tries(other) is None)
    assert notes(tmp_path) == ["begin", *ALL]


def test_an_experiment_that_goes_on_has_no_mark(make_rig, tuner) -> None:
    rig = make_rig()
    experiment = left_behind(rig, tuner())
    intents.submit_trial(experiment, {"x": 1})
    assert tries(experiment) is None


def test_an_experiment_whose_tuner_heard_nothing_loses_its_mark(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner(), status="STOPPED", tuner_exit_tries=1)
    rig.until(lambda: tries(experiment) is None)
    assert not (tmp_path / "notes.txt").exists()


def test_a_worker_that_ends_waits_for_the_tuner_before_another_takes_the_cluster(
        make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = made_done(rig, tuner(seconds=0.3))
    rig.close()
    assert tries(experiment) is None
    assert notes(tmp_path).count("begin") == 1
    rig.runner = rig.new_runner("worker-2")


def test_a_tuner_ends_at_once_where_another_worker_has_taken_over(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = made_done(rig, tuner(seconds=0.5))
    Cluster.objects.filter(pk=rig.cluster.pk).update(lease_holder="", lease_expires_at=None)
    first, rig.runner = rig.runner, rig.new_runner("worker-2")
    first.lease.is_lost = True
    first._close()
    rig.until(lambda: tries(experiment) is None)
    assert notes(tmp_path).count("exit") == 1
    assert notes(tmp_path)[-4:] == ALL


def test_a_private_cluster_is_driven_until_the_tuner_has_ended(make_rig, tuner) -> None:
    rig = make_rig()
    experiment = left_behind(rig, tuner())
    Cluster.objects.filter(pk=rig.cluster.pk).update(is_private=True)
    assert supervisor._idle_of(supervisor._clusters_here()) == set()
    rig.until(lambda: tries(experiment) is None)
    assert supervisor._idle_of(supervisor._clusters_here()) == {rig.cluster.pk}


def test_looking_for_such_tuners_costs_one_query_in_ten_seconds(make_rig, django_assert_num_queries) -> None:
    rig = make_rig()
    rig.rounds(2)
    rig.skip(10)
    with django_assert_num_queries(1):
        make_up_for_exits(rig.runner.work)
        make_up_for_exits(rig.runner.work)
