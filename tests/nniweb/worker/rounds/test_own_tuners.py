"""What becomes of an experiment whose tuner, written by the user, fails."""

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError

from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.models import Experiment, Trial, TunerEvent
from nniweb.worker.rounds import fill_slots
from nniweb.worker.rounds.repeated_failures import MOST_FAILURES
from nniweb.worker.rounds.telling import teach_tuner
from tests.nniweb.worker.conftest import report

TUNER = """
import os, pathlib
from nni.tuner import Tuner

deep = []
for _ in range(2000):
    deep = [deep]
ODD = {"nan": {"x": {"y": [1, float("nan")]}}, "infinity": {"x": float("-inf")}, "zero": {"x": "a\\0b"},
       "half": {"x": "\\ud800"},
       "zero in name": {"x\\0": 1}, "deep": {"x": deep}, "long": {"x": 10 ** 400}, "large": {"x": "y" * 5_000_000},
       "refused": {"x": "refused"}}

class Mine(Tuner):
    def __init__(self, how):
        self.how = how
    def update_search_space(self, search_space):
        self.space = search_space
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        self.together = parameter_id_list
        return super().generate_multiple_parameters(parameter_id_list, **kwargs)
    def generate_parameters(self, parameter_id, **kwargs):
        if self.how == "raises":
            raise ValueError("nothing comes to my mind")
        if self.how in ODD:
            return ODD[self.how]
        if self.how == "raises oddly":
            raise ValueError("a\\0b\\ud800c")
        if self.how == "dies":
            os._exit(3)
        if self.how == "dies once" and parameter_id == 2 and not pathlib.Path(__file__).with_name("died").exists():
            pathlib.Path(__file__).with_name("died").touch()
            os._exit(3)
        if self.how == "batches":
            return {"x": parameter_id, "together": list(self.together)}
        if self.how == "surroundings":
            names = ("NNI_", "SDK_", "CUDA_")
            pathlib.Path("note.txt").write_text("kept")
            return {"folder": os.getcwd(), "checkpoints": self.get_checkpoint_path(),
                    "environment": {name: value for name, value in os.environ.items() if name.startswith(names)}}
        if self.how == "shows":
            return {"space": self.space}
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass
"""


@pytest.fixture
def tuner(tmp_path):
    (tmp_path / "mine.py").write_text(TUNER)
    return lambda how: {"class_name": "mine.Mine", "code_directory": str(tmp_path), "class_args": {"how": how}}


@pytest.mark.parametrize(("how", "code", "words"), [
    ("raises", "tuner_failed", "The tuner failed: ValueError: nothing comes to my mind"),
    ("dies", "tuner_died", "The tuner's process ended unexpectedly 3 times: the tuner process ended (exit code 3)"),
])
def test_its_crash_is_the_experiments_message(make_rig, tuner, how, code, words) -> None:
    rig = make_rig()
    other, experiment = rig.experiment(), rig.experiment(tuner=tuner(how))
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "ERROR", 60)
    found = Experiment.objects.get(pk=experiment.pk)
    assert found.message.startswith(words)
    assert found.reason == code
    assert len(rig.submitted(other, 2)) == 2


@pytest.mark.parametrize("error", [InterfaceError("connection already closed"), OperationalError("server is away")])
def test_a_database_that_is_away_ends_no_experiment_however_often_its_steps_fail(make_rig, monkeypatch, error) -> None:
    rig = make_rig()
    experiment = rig.experiment()
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "RUNNING")

    def away(*args):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(teach_tuner, "teach_tuner", away)
        for _ in range(MOST_FAILURES + 2):
            with pytest.raises(type(error)):
                rig.runner.round()
    assert len(rig.submitted(experiment, 2)) == 2


def test_its_failure_is_logged_once_however_long_trials_go_on(make_rig, tmp_path, caplog) -> None:
    (tmp_path / "once.py").write_text(
        "from nni.tuner import Tuner\nclass Mine(Tuner):\n    def update_search_space(self, space):\n        pass\n"
        "    def generate_parameters(self, number, **kwargs):\n        return {'x': [0.5][number]}\n"
        "    def receive_trial_result(self, number, parameters, value, **kwargs):\n        pass\n")
    caplog.set_level("INFO")
    rig = make_rig()
    experiment = rig.experiment(trial_concurrency=1, tuner={
        "class_name": "once.Mine", "code_directory": str(tmp_path), "class_args": {}})
    [first] = rig.submitted(experiment, 1)
    Experiment.objects.filter(pk=experiment.pk).update(trial_concurrency=2)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "ERROR")
    rig.rounds(5)
    assert not Trial.objects.get(pk=first.pk).is_finished
    lines = [message for message in caplog.messages if "ERROR: The tuner failed" in message]
    assert len(lines) == 1, lines
    report(first, 1.0)
    rig.until(lambda: Trial.objects.get(pk=first.pk).is_finished)
    rig.rounds(2)
    assert rig.runner.work.logged_status == {}


@pytest.mark.parametrize("how", ["nan", "infinity", "zero", "half", "zero in name", "deep", "long", "large",
                                 "raises oddly"])
def test_what_it_proposes_and_cannot_be_stored_ends_the_experiment_with_a_sentence(
        make_rig, tuner, how, caplog) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner(how))
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).is_finished, 60)
    found = Experiment.objects.get(pk=experiment.pk)
    assert (found.status, found.reason) == ("ERROR", "tuner_failed"), found.message
    assert how == "raises oddly" or "parameter" in found.message or "recursion" in found.message
    assert len(found.message) < 1000
    caplog.text.encode()  # files take what the log says of it


def test_a_step_that_fails_each_time_is_not_tried_for_ever_and_harms_no_other_experiment(
        make_rig, tuner, monkeypatch) -> None:
    """What no check of ours has foreseen: the database refuses the tuner's answer each time."""
    rig = make_rig()
    insert = fill_slots.insert

    def refused(rows):
        rows = list(rows)
        if any(getattr(row, "value", None) == {"x": "refused"} for row in rows):
            raise IntegrityError("CHECK constraint failed: no such value")
        return insert(rows)

    monkeypatch.setattr(fill_slots, "insert", refused)
    experiment, other = rig.experiment(tuner=tuner("refused")), rig.experiment()
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).is_finished, 60)
    found = Experiment.objects.get(pk=experiment.pk)
    assert (found.status, found.reason) == ("ERROR", "rounds_failed")
    assert "10 times in a row: IntegrityError: CHECK constraint failed" in found.message
    assert len(rig.submitted(other, 2)) == 2


def test_an_assessor_that_fails_is_named_as_such(make_rig, tmp_path) -> None:
    (tmp_path / "judge.py").write_text("from nni.assessor import Assessor\nclass Mine(Assessor):\n"
                                       "    def assess_trial(self, trial, history):\n        return 'good'\n")
    rig = make_rig()
    experiment = rig.experiment(assessor={"class_name": "judge.Mine", "code_directory": str(tmp_path)})
    report(rig.submitted(experiment, 1)[0], 0.5, end=False)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "ERROR", 60)
    found = Experiment.objects.get(pk=experiment.pk)
    assert found.reason == "assessor_failed"
    assert found.message.startswith("The assessor failed: TypeError: assess_trial must return AssessResult.Good")


OWN_TYPES = {"net": {"_type": "graph", "_value": {"layers": [1, 2]}}, "note": "free text"}


@pytest.mark.parametrize("space", [{}, OWN_TYPES], ids=["no space", "types of its own"])
def test_its_search_space_is_given_as_written_and_may_be_changed(make_rig, tuner, space) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("shows"), trial_concurrency=1, max_trial_number=2, search_space=space)
    attempt, = rig.submitted(experiment, 1)
    change_and_undo.change(experiment, {"search_space": {"other": 1}})
    report(attempt, 1.0)
    report(rig.submitted(experiment, 2)[-1], 1.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE", 60)
    asked = [event.data["parameters"]["space"] for event in TunerEvent.objects.order_by("number")
             if event.data["event"] == "ask"]
    assert asked[0] == space
    assert asked[1] in (space, {"other": 1})  # a parameter set that waited in the queue stays as it is


def test_one_that_dies_once_is_restarted_with_its_history(make_rig, tuner) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("dies once"), trial_concurrency=1, max_trial_number=4)
    for count in range(1, 5):
        report(rig.submitted(experiment, count)[-1], 1.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE", 60)
    asked = [event.data["parameters"] for event in TunerEvent.objects.order_by("number")
             if event.data["event"] == "ask"]
    assert asked == [{"x": number} for number in range(4)]


def test_free_slots_are_asked_for_together_and_the_record_says_so(make_rig, tuner) -> None:
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("batches"), trial_concurrency=3)
    trials = rig.submitted(experiment, 3)
    rig.runner.work.tuners.forget(experiment.pk)  # as after a restart
    report(trials[0], 1.0)
    rig.submitted(experiment, 4)
    asked = [event.data for event in TunerEvent.objects.order_by("number") if event.data["event"] == "ask"]
    assert [event["parameters"]["together"] for event in asked] == [[0, 1, 2]] * 3 + [[3]]
    assert [event.get("asked") for event in asked] == [3, None, None, 1]


@pytest.mark.parametrize(("config", "gpus"), [({}, ""), ({"tunerGpuIndices": [1, 3], "logLevel": "debug"}, "1,3")])
def test_it_runs_in_a_folder_of_its_experiment_with_the_variables_of_nni(
        make_rig, tuner, settings, tmp_path, config, gpus) -> None:
    settings.DATA_FOLDER = tmp_path / "data"
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("surroundings"), trial_concurrency=1, config=config)
    rig.submitted(experiment, 1)
    found = TunerEvent.objects.get(number=0).data["parameters"]
    folder = tmp_path / "data" / "tuners" / experiment.public_id
    assert (found["folder"], found["checkpoints"]) == (str(folder / "log"), str(folder / "checkpoint"))
    assert {name: found["environment"].get(name) for name in (
        "SDK_PROCESS", "NNI_MODE", "NNI_LOG_DIRECTORY", "NNI_CHECKPOINT_DIRECTORY", "NNI_LOG_LEVEL",
        "NNI_INCLUDE_INTERMEDIATE_RESULTS", "CUDA_VISIBLE_DEVICES")} == {
            "SDK_PROCESS": "dispatcher", "NNI_MODE": "start", "NNI_LOG_DIRECTORY": str(folder / "log"),
            "NNI_CHECKPOINT_DIRECTORY": str(folder / "checkpoint"), "NNI_LOG_LEVEL": config.get("logLevel", "info"),
            "NNI_INCLUDE_INTERMEDIATE_RESULTS": "false", "CUDA_VISIBLE_DEVICES": gpus}
    assert (folder / "log" / "note.txt").read_text() == "kept"


def test_what_it_wrote_goes_with_its_experiment(make_rig, tuner, settings, tmp_path) -> None:
    settings.DATA_FOLDER = tmp_path / "data"
    rig = make_rig()
    experiment = rig.experiment(tuner=tuner("surroundings"), trial_concurrency=1, max_trial_number=1)
    report(rig.submitted(experiment, 1)[0], 1.0)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE", 60)
    folder = tmp_path / "data" / "tuners" / experiment.public_id
    assert folder.is_dir()
    intents.delete(Experiment.objects.get(pk=experiment.pk), None)
    Experiment.objects.filter(pk=experiment.pk).update(rows_removed_at=experiment.created_at)
    rig.until(lambda: not Experiment.objects.filter(pk=experiment.pk).exists(), 60)
    assert not folder.exists()
