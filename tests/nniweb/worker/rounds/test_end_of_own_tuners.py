"""What a tuner of the user's own still gets when its experiment ends, and what is said where it proposed nothing."""

import logging
from pathlib import Path

import pytest

from nniweb.experiments.actions import intents
from nniweb.experiments.models import Experiment
from tests.nniweb.worker.conftest import report
from tests.trialkeeper.keeper_run import wait_until

TUNER = """
import pathlib, threading, time
from nni.tuner import Tuner

class Slow(Tuner):
    def __init__(self, seconds=0.1):
        self.seconds = seconds
        self.notes = pathlib.Path(__file__).with_name("notes.txt")
        self.note("begin")
    def note(self, text):
        with open(self.notes, "a") as stream:
            stream.write(text + "\\n")
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        time.sleep(self.seconds)
        self.note("result %d" % parameter_id)
    def _on_exit(self):
        self.note("exit")

class Blocking(Tuner):
    def __init__(self):
        self.told = threading.Event()
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        if parameter_id:
            self.told.wait()
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.told.set()

class Mute(Blocking):
    def generate_parameters(self, parameter_id, **kwargs):
        self.told.wait()

class Empty(Blocking):
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        return []
"""


@pytest.fixture
def tuner(tmp_path: Path):
    (tmp_path / "mine.py").write_text(TUNER)
    return lambda name, **more: {"class_name": f"mine.{name}", "code_directory": str(tmp_path), **more}


def notes(folder: Path) -> list[str]:
    return (folder / "notes.txt").read_text().splitlines()


def status(experiment: Experiment) -> str:
    return Experiment.objects.get(pk=experiment.pk).status


def test_a_slow_tuner_gets_all_results_of_an_experiment_that_is_done(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Slow"), trial_concurrency=6, max_trial_number=6)
    for trial in rig.submitted(experiment, 6):
        report(trial, 1.0)
    rig.until(lambda: status(experiment) == "DONE")
    wait_until(lambda: notes(tmp_path)[-1] == "exit")
    assert sorted(notes(tmp_path)) == ["begin", "exit", *(f"result {number}" for number in range(6))]


def test_a_slow_tuner_gets_all_results_of_an_experiment_that_is_stopped(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Slow"), trial_concurrency=3, max_trial_number=3)
    *succeeded, running = rig.submitted(experiment, 3)
    for trial in succeeded:
        report(trial, 1.0)
    intents.stop(experiment)
    rig.rounds()
    report(running, exit_code=None, reason="stopped")
    rig.until(lambda: status(experiment) == "STOPPED")
    wait_until(lambda: notes(tmp_path)[-1] == "exit")
    assert notes(tmp_path).count("begin") == 1
    assert {"result 0", "result 1"} <= set(notes(tmp_path))


def test_a_slow_tuner_gets_all_results_of_an_experiment_that_is_given_up(make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Slow"), trial_concurrency=3, max_trial_number=9,
                                failed_trials={"giveUpAfter": 1})
    first, second, _ = rig.submitted(experiment, 3)
    report(first, 1.0)
    report(second, exit_code=1)
    rig.until(lambda: status(experiment) == "ERROR")
    wait_until(lambda: notes(tmp_path)[-1] == "exit")
    assert "result 0" in notes(tmp_path)


def test_when_the_worker_ends_the_tuner_is_told_of_the_end_and_made_again_later(
        make_rig, tuner, tmp_path: Path) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Slow"), trial_concurrency=1, max_trial_number=2)
    first, = rig.submitted(experiment, 1)
    rig.close()
    wait_until(lambda: notes(tmp_path) == ["begin", "exit"])
    rig.runner = rig.new_runner("worker-2")
    report(first, 1.0)
    report(rig.submitted(experiment, 2)[-1], 1.0)
    rig.until(lambda: status(experiment) == "DONE")
    wait_until(lambda: notes(tmp_path)[-1] == "exit")
    assert notes(tmp_path) == ["begin", "exit", "begin", "result 0", "result 1", "exit"]


def test_a_tuner_that_blocks_until_a_result_comes_gets_its_trials(make_rig, tuner) -> None:
    """NNI's test case multi_thread."""
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Blocking", multi_thread=True), trial_concurrency=2, max_trial_number=4)
    first, = rig.submitted(experiment, 1)
    rig.rounds(3)
    assert len(rig.submitted(experiment, 1)) == 1
    report(first, 1.0)
    for count in (2, 3, 4):
        report(rig.submitted(experiment, count)[count - 1], 1.0)
    rig.until(lambda: status(experiment) == "DONE")


def test_an_experiment_whose_tuner_never_answers_says_so(make_rig, tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_rig()
    monkeypatch.setattr(rig.tuner_client, "_exit_seconds", 0.2)
    experiment = rig.experiment(tuner=tuner("Mute"), max_duration=600, max_trial_number=4)
    rig.until(lambda: rig.runner.work.tuners.asked_at(experiment.pk))
    rig.skip(60)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).reason == "tuner_silent")
    assert "needs multiThread: true" in Experiment.objects.get(pk=experiment.pk).message
    rig.skip(600)
    rig.until(lambda: status(experiment) == "DONE")
    found = Experiment.objects.get(pk=experiment.pk)
    assert found.reason == "no_trial"
    assert found.reason_arguments["because"]["code"] == "max_duration"
    assert "It ended without a trial. The tuner was asked for parameters at " in found.message


def test_the_remark_goes_when_the_tuner_answers(make_rig, tuner) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Blocking"), trial_concurrency=1, max_trial_number=4)
    first, = rig.submitted(experiment, 1)
    Experiment.objects.filter(pk=experiment.pk).update(message="Nothing comes.", reason="tuner_silent")
    report(first, 1.0)
    rig.submitted(experiment, 2)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).message == "")


def test_an_experiment_whose_tuner_has_nothing_at_all_says_so(make_rig, tuner) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("Empty"), max_trial_number=4)
    rig.until(lambda: status(experiment) == "DONE")
    found = Experiment.objects.get(pk=experiment.pk)
    assert found.reason == "no_trial"
    assert found.message == "The tuner has no further parameters to try. It ended without a trial."


def test_results_that_do_not_arrive_in_time_are_in_the_experiments_log(
        make_rig, tuner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    rig = make_rig()
    monkeypatch.setattr(rig.tuner_client, "_exit_seconds", 0.2)
    experiment = rig.experiment(tuner=tuner("Slow", class_args={"seconds": 3600}), trial_concurrency=2,
                                max_trial_number=2)
    for trial in rig.submitted(experiment, 2):
        report(trial, 1.0)
    rig.until(lambda: status(experiment) == "DONE")
    wait_until(lambda: "2 results had not arrived" in caplog.text)
    assert [record.experiment for record in caplog.records if "had not arrived" in record.message] == [
        experiment.public_id]
