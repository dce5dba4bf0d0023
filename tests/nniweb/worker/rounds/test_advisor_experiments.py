"""An experiment whose advisor the user wrote: it proposes, hears all results, and stops trials."""

import pytest

from nniweb.experiments.actions import intents
from nniweb.experiments.models import Experiment, Trial, TunerEvent
from tests.nniweb.worker.conftest import report

ADVISOR = """
import json
import nni
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.protocol import CommandType, send

class Mine(MsgDispatcherBase):
    def __init__(self):
        super().__init__()
        self.made, self.heard = 0, []
    def handle_initialize(self, data):
        send(CommandType.Initialized, "")
    def handle_request_trial_jobs(self, data):
        for _ in range(data):
            trial = {"parameter_id": "p%d" % self.made, "parameters": {"heard": self.heard}}
            send(CommandType.NewTrialJob, nni.dump(trial))
            self.made, self.heard = self.made + 1, []
    def handle_report_metric_data(self, data):
        self.heard.append([data["type"], data["parameter_id"], json.loads(data["value"])])
        if data["type"] == "PERIODICAL" and json.loads(data["value"]) < 0:
            send(CommandType.KillTrialJob, nni.dump(data["trial_job_id"]))
    def handle_trial_end(self, data):
        self.heard.append(["end", json.loads(data["hyper_params"])["parameter_id"], data["event"]])
    def handle_add_customized_trial(self, data):
        self.heard.append(["customized", data["parameters"]])
"""


@pytest.fixture
def experiment(rig, tmp_path):
    (tmp_path / "mine.py").write_text(ADVISOR)
    return rig.experiment(tuner={"class_name": "mine.Mine", "code_directory": str(tmp_path), "class_args": {}},
                          trial_concurrency=1, max_trial_number=10)


def heard(trial: Trial) -> list:
    return trial.parameter_sets.get().value["heard"]


def test_it_hears_all_results_and_stops_trials(rig, experiment) -> None:
    [first] = rig.submitted(experiment, 1)
    report(first, 0.5, -1.0, end=False)
    rig.until(lambda: Trial.objects.get(pk=first.pk).target == "EARLY_STOPPED")
    report(first, 0.5, -1.0, exit_code=143, reason="stopped")
    second = rig.submitted(experiment, 2)[1]
    assert heard(second) == [["PERIODICAL", "p0", 0.5], ["PERIODICAL", "p0", -1.0], ["end", "p0", "EARLY_STOPPED"]]
    intents.submit_trial(experiment, {"x": 7})
    report(second, 0.75)
    by_hand = rig.submitted(experiment, 3)[2]
    report(by_hand, 0.25)
    assert heard(rig.submitted(experiment, 4)[3]) == [
        ["FINAL", "p1", 0.75], ["end", "p1", "SUCCEEDED"], ["customized", {"x": 7}]]
    assert Trial.objects.get(pk=first.pk).message == "Stopped by the experiment's custom advisor."


@pytest.mark.parametrize("odd", ['"\0"', '"\ud800"', "no JSON", "NaN"])
def test_what_is_no_result_is_not_told(rig, experiment, odd) -> None:
    [first] = rig.submitted(experiment, 1)
    report(first, odd)
    assert heard(rig.submitted(experiment, 2)[1]) == [["end", "p0", "SUCCEEDED"]]
    [told] = TunerEvent.objects.filter(experiment=experiment, data__event="tell").values_list("data", flat=True)
    assert told["value"] is None
    assert told["result"] in (None, odd)
    assert told["result"] is None or told["result"].isprintable()


def test_after_a_restart_it_has_heard_the_same(rig, experiment) -> None:
    [first] = rig.submitted(experiment, 1)
    report(first, 0.5, 0.75)
    second = rig.submitted(experiment, 2)[1]
    report(second, 0.25, end=False)
    rig.runner.work.tuners.forget(experiment.pk)
    rig.rounds()
    report(second, 0.25, 0.125)
    third = rig.submitted(experiment, 3)[2]
    assert heard(second) == [["PERIODICAL", "p0", 0.5], ["FINAL", "p0", 0.75], ["end", "p0", "SUCCEEDED"]]
    assert heard(third) == [["PERIODICAL", "p1", 0.25], ["FINAL", "p1", 0.125], ["end", "p1", "SUCCEEDED"]]
    assert TunerEvent.objects.filter(experiment=experiment, data__event="ask").count() == 3


def test_an_advisor_cannot_be_used_with_replicates(rig, experiment) -> None:
    Experiment.objects.filter(pk=experiment.pk).update(replicates={"n": 2})
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "ERROR")
    assert "an advisor hears of each trial by itself" in Experiment.objects.get(pk=experiment.pk).message
