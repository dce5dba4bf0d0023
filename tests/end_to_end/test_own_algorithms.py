"""Tuners that people wrote against NNI, by the real server: files as NNI 1 has them, real trials."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer

TUNERS = '''
import pathlib, time
import nni
from nni.tuner import Tuner

class Blocking(Tuner):
    """NNI's test case multi_thread: all but the first proposal wait for the first result."""
    def __init__(self):
        self.has_result = False
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        while parameter_id and not self.has_result:
            time.sleep(0.1)
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.has_result = True

class Slow(Blocking):
    """Needs half a second for each result."""
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        time.sleep(0.5)
        self.note("result %d %s" % (parameter_id, value))
    def _on_exit(self):
        self.note("exit")
    def note(self, text):
        with open(pathlib.Path(__file__).with_name("notes.txt"), "a") as stream:
            stream.write(text + "\\n")

class Generations(Blocking):
    """Hands in the next generation of two through the callback when both of the last one have ended."""
    def __init__(self):
        self.ready, self.made, self.wanted, self.running = [0, 1], 2, [], 0
    def generate_multiple_parameters(self, parameter_id_list, **kwargs):
        self.send_trial_callback = kwargs["st_callback"]
        return [self.start() for parameter_id in parameter_id_list if self.ready or self.wanted.append(parameter_id)]
    def start(self):
        self.running += 1
        return {"x": self.ready.pop(0)}
    def trial_end(self, parameter_id, success, **kwargs):
        self.running -= 1
        if not self.running and not self.ready:
            self.ready, self.made = [self.made, self.made + 1], self.made + 2
        while self.wanted and self.ready:
            self.send_trial_callback(self.wanted.pop(0), self.start())
'''
TRIAL = """
import argparse, nni
from nni.utils import merge_parameter
parser = argparse.ArgumentParser()
parser.add_argument("--x", type=float, default=0.5)
parser.add_argument("--scale", type=float, default=2)
arguments = merge_parameter(parser.parse_args(), nni.get_next_parameter())
nni.report_final_result(arguments.x * arguments.scale)
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "mine.py").write_text(TUNERS)
    (folder / "trial.py").write_text(TRIAL)
    (folder / "space.json").write_text("{}")
    return folder


def v1(class_name: str, **changes: Any) -> dict[str, Any]:
    return {"authorName": "nni", "experimentName": "own", "maxExecDuration": "5m", "maxTrialNum": 4,
            "trialConcurrency": 2, "searchSpacePath": "space.json", "useAnnotation": False,
            "trainingServicePlatform": "local",
            "tuner": {"codeDir": ".", "classFileName": "mine.py", "className": class_name},
            "trial": {"codeDir": ".", "command": "python3 trial.py", "gpuNum": 0}, **changes}


def results(server: RunningServer, experiment: str) -> list[float]:
    return sorted(trial["final_number"] for trial in server.get_all(f"experiments/{experiment}/trials/"))


@pytest.mark.slow
@pytest.mark.parametrize(("class_name", "changes"), [("Blocking", {"multiThread": True}), ("Generations", {})])
def test_a_tuner_whose_proposals_wait_for_results_gets_all_its_trials(
        running_server: RunningServer, code: Path, class_name: str, changes: dict[str, Any]) -> None:
    experiment = running_server.launch(v1(class_name, **changes), code)
    running_server.wait_for_experiment(experiment, patience=110)
    assert results(running_server, experiment) == [0, 2, 4, 6]


@pytest.mark.slow
def test_a_slow_tuner_gets_all_results_also_when_the_server_is_stopped_at_once(
        running_server: RunningServer, code: Path) -> None:
    experiment = running_server.launch(v1("Slow", maxTrialNum=6, trialConcurrency=6), code)
    running_server.wait_for_experiment(experiment, patience=110)
    running_server.stop()
    notes = (code / "notes.txt").read_text().splitlines()
    assert sorted(notes[:-1]) == [f"result {number} {number * 2.0}" for number in range(6)]
    assert notes[-1] == "exit"


def notes_of_last(code: Path) -> list[str]:
    """What the tuner noted that was created last."""
    lines = (code / "notes.txt").read_text().splitlines() if (code / "notes.txt").exists() else []
    begun = [index for index, line in enumerate(lines) if line == "begin"]
    return lines[begun[-1] + 1:] if begun else []


@pytest.fixture
def ended(running_server: RunningServer, code: Path) -> str:
    """An experiment that has just become DONE; its tuner has received few of the six results."""
    (code / "mine.py").write_text(TUNERS.replace("""class Slow(Blocking):
""", """class Slow(Blocking):
    def __init__(self):
        self.note("begin")
"""))
    experiment = running_server.launch(v1("Slow", maxTrialNum=6, trialConcurrency=6), code)
    running_server.wait_for_experiment(experiment, patience=110)
    return experiment


def has_received_all(code: Path) -> bool:
    notes = notes_of_last(code)
    return sorted(notes[:-1]) == [f"result {number} {number * 2.0}" for number in range(6)] and notes[-1] == "exit"


@pytest.mark.slow
def test_a_slow_tuner_gets_all_results_also_when_the_server_is_killed_at_once(
        running_server: RunningServer, ended: str, code: Path) -> None:
    running_server.kill()
    assert "exit" not in notes_of_last(code)
    running_server.start()
    assert running_server.get(f"experiments/{ended}/")["status"] == "DONE"
    running_server.wait_until(lambda: has_received_all(code))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [[1], [5], [1, 1], [4, 0, 5]])
def test_the_server_is_killed_whatever_the_tuner_has_received(
        running_server: RunningServer, ended: str, code: Path, kills: list[int]) -> None:
    """``kills``: how many results the tuner that was created last has received each time."""
    for count in kills:
        running_server.wait_until(lambda count=count: len(notes_of_last(code)) >= count)
        running_server.kill()
        running_server.start()
    running_server.wait_until(lambda: has_received_all(code))
    created = (code / "notes.txt").read_text().count("begin")
    running_server.stop()
    running_server.start()
    running_server.stop()
    assert (code / "notes.txt").read_text().count("begin") == created, "it was told although it had received all"


@pytest.mark.slow
def test_an_experiment_that_ends_without_a_trial_says_why(make_server: Callable[..., RunningServer], code: Path
                                                          ) -> None:
    server = make_server({"NNIWEB_TUNER_EXIT_SECONDS": "1"}).start()
    (code / "mine.py").write_text(TUNERS.replace("while parameter_id and", "while"))
    experiment = server.launch(v1("Blocking", maxExecDuration="3s"), code)
    ended = server.wait_for_experiment(experiment)
    assert ended["reason"]["code"] == "no_trial"
    assert "It ended without a trial. The tuner was asked for parameters at" in ended["message"]


@pytest.mark.slow
def test_a_registered_tuner_is_named_as_in_nni(make_server: Callable[..., RunningServer], code: Path,
                                               tmp_path: Path) -> None:
    server = make_server({"NNI_CONFIG_DIR": str(tmp_path / "config"), "PYTHONPATH": str(code)}).start()
    meta = {"algoType": "tuner", "builtinName": "demotuner", "className": "mine.Slow"}
    (tmp_path / "meta.yml").write_text(json.dumps(meta))
    server.manage("algo", "register", "--meta_path", str(tmp_path / "meta.yml"))
    experiment = server.launch(v1("", maxTrialNum=2, tuner={"builtinTunerName": "demotuner"}), code)
    server.wait_for_experiment(experiment)
    assert results(server, experiment) == [0, 2]
