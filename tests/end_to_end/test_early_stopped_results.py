"""A file of NNI 1 with ``includeIntermediateResults``, from its launch to what its tuner hears."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.end_to_end.running_server import RunningServer

TUNER = """
from nni.tuner import Tuner

class Numbers(Tuner):
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"number": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        with open(__file__ + ".heard", "a") as file:
            print(parameters["number"], value, file=file)
"""
#: The first trial is good; the second one is bad, and would never end.
TRIAL = """
import time
import nni
number = nni.get_next_parameter()["number"]
for step in range(5):
    nni.report_intermediate_result(0.9 if number == 0 else 0.1)
while number:
    time.sleep(0.2)
nni.report_final_result(0.9)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_tuner_hears_the_last_result_of_a_trial_that_the_assessor_stopped(running_server: RunningServer,
                                                                              tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "tuner.py").write_text(TUNER)
    (folder / "trial.py").write_text(TRIAL)
    config = {
        "authorName": "ada", "experimentName": "stopped early", "trialConcurrency": 1, "maxTrialNum": 2,
        "trainingServicePlatform": "local",
        "tuner": {"codeDir": ".", "classFileName": "tuner.py", "className": "Numbers",
                  "includeIntermediateResults": True},
        "assessor": {"builtinAssessorName": "Medianstop", "classArgs": {"optimize_mode": "maximize"}},
        "trial": {"command": "python3 trial.py", "codeDir": ".", "gpuNum": 0}}
    experiment = running_server.launch(yaml.safe_dump(config), folder)
    running_server.wait_for_experiment(experiment, "DONE", patience=180)
    trials = running_server.get(f"experiments/{experiment}/trials/")["results"]
    assert sorted((trial["status"], trial["final_number"]) for trial in trials) == [
        ("EARLY_STOPPED", None), ("SUCCEEDED", 0.9)]
    running_server.wait_until(lambda: (folder / "tuner.py.heard").read_text().splitlines() == ["0 0.9", "1 0.1"],
                              what="the tuner has heard of both")
