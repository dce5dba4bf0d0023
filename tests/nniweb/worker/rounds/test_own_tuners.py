"""What becomes of an experiment whose tuner, written by the user, fails."""

import pytest

from nniweb.experiments.actions import change_and_undo
from nniweb.experiments.models import Experiment, TunerEvent
from tests.nniweb.worker.conftest import report

TUNER = """
import os, pathlib
from nni.tuner import Tuner

class Mine(Tuner):
    def __init__(self, how):
        self.how = how
    def update_search_space(self, search_space):
        self.space = search_space
    def generate_parameters(self, parameter_id, **kwargs):
        if self.how == "raises":
            raise ValueError("nothing comes to my mind")
        if self.how == "dies":
            os._exit(3)
        if self.how == "dies once" and parameter_id == 2 and not pathlib.Path(__file__).with_name("died").exists():
            pathlib.Path(__file__).with_name("died").touch()
            os._exit(3)
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
