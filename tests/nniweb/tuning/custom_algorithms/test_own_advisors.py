"""Advisors that users wrote against NNI's MsgDispatcherBase, with real processes."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.process.tuner_client import TunerClient, TunerFailed
from tests.fakes.official_nni import official_python
from tests.nniweb.tuning.custom_algorithms.test_own_classes import own, result, spec

#: As users of NNI 3 write them.
THREE = '''
import nni
from nni import ClassArgsValidator, parameter_expressions
from nni.common.hpo_utils import validate_search_space
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.tuner_command_channel import CommandType
from nni.utils import MetricType, OptimizeMode, extract_scalar_reward
import numpy as np

class Halving(MsgDispatcherBase):
    """Draws points, and stops each trial whose first result is below the best so far. At most ``most`` trials."""

    def __init__(self, optimize_mode="maximize", most=6):
        super().__init__()
        self.mode = OptimizeMode(optimize_mode)
        self.most, self.made, self.best, self.heard, self.owed = most, 0, None, [], 0

    def handle_initialize(self, data):
        self.handle_update_search_space(data)
        self.send(CommandType.Initialized, "")

    def handle_update_search_space(self, data):
        assert validate_search_space(data, ["uniform", "randint"])
        self.space = data
        self.heard.append(["space", sorted(data)])

    def handle_request_trial_jobs(self, data):
        for _ in range(data):
            if self.made == self.most:
                self.send(CommandType.NoMoreTrialJobs, nni.dump({"parameter_id": "-1_0_0", "parameters": ""}))
                continue
            low, high = self.space["x"]["_value"]
            x = parameter_expressions.uniform(low, high, np.random)
            self.send(CommandType.NewTrialJob, nni.dump({
                "parameter_id": "0_%d" % self.made, "parameter_source": "algorithm",
                "parameters": {"x": np.float64(x), "heard": self.heard}}))
            self.made, self.heard = self.made + 1, []

    def handle_report_metric_data(self, data):
        data["value"] = nni.load(data["value"])
        value = extract_scalar_reward(data["value"])
        self.heard.append([data["type"], data["parameter_id"], data["trial_job_id"], data["sequence"], data["value"]])
        if data["type"] == MetricType.FINAL:
            self.best = value if self.best is None else max(value, self.best)
        elif self.best is not None and value < self.best:
            self.send(CommandType.KillTrialJob, nni.dump(data["trial_job_id"]))

    def handle_trial_end(self, data):
        params = nni.load(data["hyper_params"])
        self.heard.append(["end", params["parameter_id"], data["trial_job_id"], data["event"]])

    def handle_import_data(self, data):
        self.heard += [["import", entry["parameter"], nni.load(entry["value"])] for entry in data]

    def handle_add_customized_trial(self, data):
        self.heard.append(["customized", data["parameters"]])

class Nan(Halving):
    def handle_request_trial_jobs(self, data):
        self.send(CommandType.NewTrialJob, nni.dump({"parameter_id": 0, "parameters": {"x": float("nan")}}))

class Patient(Halving):
    """Sends a second trial only when the first has ended, without being asked again."""
    def handle_request_trial_jobs(self, data):
        self.owed += data
        if self.made == 0:
            self.owed -= 1
            super().handle_request_trial_jobs(1)
    def handle_trial_end(self, data):
        super().handle_trial_end(data)
        owed, self.owed = self.owed, 0
        super().handle_request_trial_jobs(owed)

class Careless(Halving):
    def handle_request_trial_jobs(self, data):
        self.send(CommandType.NewTrialJob, nni.dump({"x": 1}))

class Desperate(Halving):
    def handle_trial_end(self, data):
        self.report_error("nothing makes sense any more")

class Silent(MsgDispatcherBase):
    def handle_initialize(self, data):
        self.send(CommandType.Initialized, "")
'''
#: Needs no search space.
FREE = '''
import nni
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.tuner_command_channel import CommandType

class Free(MsgDispatcherBase):
    def handle_initialize(self, data):
        self.made = 0
        self.handle_update_search_space(data)
        self.send(CommandType.Initialized, "")
    def handle_update_search_space(self, data):
        self.space = data
    def handle_request_trial_jobs(self, data):
        for _ in range(data):
            parameters = {"space": self.space, "n": self.made}
            self.send(CommandType.NewTrialJob, nni.dump({"parameter_id": self.made, "parameters": parameters}))
            self.made += 1
    def handle_report_metric_data(self, data):
        pass
    def handle_trial_end(self, data):
        pass
'''
#: As users of NNI 1 wrote them.
ONE = '''
import json
from nni.msg_dispatcher_base import MsgDispatcherBase
from nni.protocol import CommandType, send

class Old(MsgDispatcherBase):
    def __init__(self):
        super(Old, self).__init__()
        self.count = 0
    def handle_initialize(self, data):
        self.handle_update_search_space(data)
        send(CommandType.Initialized, "")
        return True
    def handle_update_search_space(self, data):
        self.space = data
    def handle_request_trial_jobs(self, data):
        for _ in range(data):
            send(CommandType.NewTrialJob, json.dumps({
                "parameter_id": self.count, "parameter_source": "algorithm", "parameters": {"n": self.count}}))
            self.count += 1
        return True
    def handle_report_metric_data(self, data):
        return True
    def handle_trial_end(self, data):
        return True
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(THREE)
    (tmp_path / "old.py").write_text(ONE)
    (tmp_path / "free.py").write_text(FREE)
    return tmp_path


@pytest.fixture
def client() -> Iterator[TunerClient]:
    made = TunerClient()
    yield made
    made.shutdown()


def told(number: int | None, parameters: Any, value: Any, status: str = "SUCCEEDED", **more: Any) -> dict[str, Any]:
    """An end, as the worker tells it of an algorithm of the user's own."""
    text = None if value is None else str(value).replace("'", '"')
    return {"number": number, "parameters": parameters, "value": value if isinstance(value, float) else None,
            "status": status, "trial": f"t{number}", "result": text, **more}


def report(number: int, sequence: int, value: float) -> dict[str, Any]:
    return {"trial": f"t{number}", "number": number, "sequence": sequence, "value": value, "result": str(value)}


def test_an_advisor_is_told_what_nnis_manager_tells_and_stops_trials(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Halving")), []))
    first, second = result(client.ask("e", 0, 2))["parameters"]
    assert first["heard"] == [["space", ["n", "x"]]]
    assert 0 <= first["x"] != second["x"] <= 1
    assert result(client.intermediate("e", [report(0, 0, 0.5), report(1, 0, 0.25)])) == {}
    assert result(client.tell("e", **told(0, first, {"default": 0.75, "loss": 2}))) == {}
    assert result(client.intermediate("e", [report(1, 1, 0.5), report(1, 2, 0.8)])) == {"stop": ["t1"]}
    result(client.tell("e", **told(1, second, None, "EARLY_STOPPED")))
    result(client.tell("e", None, {"x": 0.1}, 0.5, "SUCCEEDED"))
    result(client.tell("e", **told(None, {"x": 3}, 0.5, customized=True)))
    [third] = result(client.ask("e", 2, 1))["parameters"]
    assert third["heard"] == [
        ["PERIODICAL", "0_0", "t0", 0, 0.5], ["PERIODICAL", "0_1", "t1", 0, 0.25],
        ["FINAL", "0_0", "t0", 0, {"default": 0.75, "loss": 2}], ["end", "0_0", "t0", "SUCCEEDED"],
        ["PERIODICAL", "0_1", "t1", 1, 0.5], ["PERIODICAL", "0_1", "t1", 2, 0.8], ["end", "0_1", "t1", "EARLY_STOPPED"],
        ["import", {"x": 0.1}, 0.5], ["customized", {"x": 3}]]
    result(client.update_search_space("e", {"x": {"_type": "uniform", "_value": [7, 8]}}))
    assert 7 <= result(client.ask("e", 3, 1))["parameters"][0]["x"] <= 8


def test_no_more_trials_is_the_end_when_none_runs(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Halving", most=2)), []))
    answer = result(client.ask("e", 0, 3))
    assert (len(answer["parameters"]), answer["exhausted"]) == (2, False)
    for number, parameters in enumerate(answer["parameters"]):
        result(client.tell("e", **told(number, parameters, 0.5)))
    assert result(client.ask("e", 2, 3)) == {"parameters": [], "exhausted": True}


def test_a_trial_may_be_sent_long_after_it_was_requested(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Patient")), []))
    [first] = result(client.ask("e", 0, 3))["parameters"]
    for _ in range(3):  # the worker asks in each round; the slots are requested once all the same
        assert result(client.ask("e", 1, 2)) == {"parameters": [], "exhausted": False}
    result(client.tell("e", **told(0, first, 0.5)))
    assert len(result(client.ask("e", 1, 3))["parameters"]) == 2


def test_it_is_rebuilt_from_the_record_with_intermediate_results(client: TunerClient, folder: Path) -> None:
    document, events, reports = spec(own(folder, "mine.Halving", most=50)), [], []
    result(client.open("e", document, []))
    for number in range(6):
        [parameters] = result(client.ask("e", number, 1))["parameters"]
        events.append({"event": "ask", "number": number, "parameters": parameters})
        reports.append(report(number, 0, number / 4))
        result(client.intermediate("e", reports[-1:]))
        if number % 2:
            end = told(number, parameters, number / 4)
            result(client.tell("e", **end))
            events.append({"event": "tell", **end})
    recorded = [*events, *({"event": "intermediate", **given} for given in reports)]
    result(client.open("again", document, recorded))
    assert [given["x"] for given in result(client.ask("again", 6, 3))["parameters"]] == [
        given["x"] for given in result(client.ask("e", 6, 3))["parameters"]]


@pytest.mark.parametrize("space", [{}, {"net": {"_type": "graph", "_value": {"layers": [1]}}, "note": "free text"}],
                         ids=["no space", "types of its own"])
def test_an_advisor_may_go_without_a_search_space_or_have_its_own(client: TunerClient, folder: Path, space: Any
                                                                  ) -> None:
    document = {**spec(own(folder, "free.Free")), "search_space": space}
    result(client.open("e", document, []))
    [first] = result(client.ask("e", 0, 1))["parameters"]
    assert first == {"space": space, "n": 0}
    end = told(0, first, 0.5)
    result(client.tell("e", **end))
    recorded = [{"event": "ask", "number": 0, "parameters": first}, {"event": "tell", **end}]
    result(client.open("again", document, recorded))
    result(client.update_search_space("again", {"other": 1}))
    assert result(client.ask("again", 1, 1))["parameters"] == [{"space": {"other": 1}, "n": 1}]


def test_one_written_for_nni_1_runs_too(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "old.Old"), {"name": "Medianstop"}), []))  # as in NNI, it is not asked
    assert result(client.ask("e", 0, 2))["parameters"] == [{"n": 0}, {"n": 1}]
    result(client.tell("e", **told(0, {"n": 0}, float("nan"))))
    result(client.tell("e", None, {"n": 5}, 1.0, "SUCCEEDED"))
    assert result(client.intermediate("e", [report(1, 0, 3.0)])) == {}
    assert result(client.ask("e", 2, 1))["parameters"] == [{"n": 2}]


@pytest.mark.parametrize(("name", "words"), [
    ("Careless", "NewTrialJob must be sent with the JSON text of an object that has parameter_id and parameters"),
    ("Silent", "Silent has no handle_request_trial_jobs"),
])
def test_what_it_does_wrong_is_the_answer(client: TunerClient, folder: Path, name: str, words: str) -> None:
    result(client.open("e", spec(own(folder, f"mine.{name}")), []))
    error = client.ask("e", 0, 1).exception(60)
    assert isinstance(error, TunerFailed)
    assert words in error.message


def test_an_error_that_it_reports_is_the_answer(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Desperate")), []))
    [first] = result(client.ask("e", 0, 1))["parameters"]
    error = client.tell("e", **told(0, first, 0.5)).exception(60)
    assert "nothing makes sense any more" in str(error)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("version", "module"), [
    ("1.9", "nni/hyperband_advisor/hyperband_advisor.py"), ("2.10.1", "nni/algorithms/hpo/hyperband_advisor.py"),
    ("3.0", "nni/algorithms/hpo/hyperband_advisor.py")])
def test_the_advisor_that_nni_comes_with_runs_unchanged(client: TunerClient, tmp_path: Path, version: str,
                                                        module: str) -> None:
    """NNI's own Hyperband, as a user's class; beside it the packages that it imports."""
    packages = next((official_python(version).parent.parent / "lib").glob("python*/site-packages"))
    shutil.copy(packages / module, tmp_path / "theirs.py")
    for name in ("schema.py", "schema", "json_tricks"):
        if (packages / name).is_dir():
            shutil.copytree(packages / name, tmp_path / name)
        elif (packages / name).exists():
            shutil.copy(packages / name, tmp_path)
    result(client.open("e", spec(own(tmp_path, "theirs.Hyperband", optimize_mode="maximize", R=9, eta=3)), []))
    running: dict[int, dict[str, Any]] = {}
    budgets, number = [], 0
    while number < 22:  # the first round of brackets: 9 + 3 + 1, then 5 + 1, then 3
        for parameters in result(client.ask("e", number, 4 - len(running)))["parameters"]:
            running[number] = parameters
            budgets.append(parameters["TRIAL_BUDGET"])
            number += 1
        ended = min(running)
        result(client.intermediate("e", [report(ended, 0, running[ended]["x"] / 2)]))
        result(client.tell("e", **told(ended, running[ended], running[ended]["x"])))
        del running[ended]
    assert budgets.count(1) == 9
    assert set(budgets) == {1, 3, 9}


def test_parameters_that_no_trial_can_be_given_are_said(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Nan")), []))
    error = client.ask("e", 0, 1).exception(60)
    assert isinstance(error, TunerFailed)
    assert "the parameter set {'x': nan} cannot be written as JSON" in error.message
