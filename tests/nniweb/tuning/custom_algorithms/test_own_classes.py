"""Tuners and assessors that users wrote against NNI's base classes, with real processes."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.process.tuner_client import TunerClient, TunerFailed, TunerProcessDied

WAIT = 60
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "randint", "_value": [0, 9]}}
ALGORITHMS = '''
import os, random, sys
import numpy as np
import nni
import nni.parameter_expressions
from nni.assessor import Assessor, AssessResult
from nni.tuner import Tuner
from nni.utils import OptimizeMode, extract_scalar_reward, extract_scalar_history
import beside

class Climber(Tuner):
    """Random steps around the best, in the way users write tuners."""
    def __init__(self, optimize_mode="maximize", step=0.1, limit=None):
        self.mode = OptimizeMode(optimize_mode)
        self.step, self.limit, self.made, self.best, self.calls = step, limit, 0, None, []
    def update_search_space(self, search_space):
        self.space = search_space
    def generate_parameters(self, parameter_id, **kwargs):
        if self.limit is not None and self.made >= self.limit:
            raise nni.NoMoreTrialError("no more")
        self.made += 1
        centre = self.best[1]["x"] if self.best else 0.5
        low, high = self.space["x"]["_value"]
        x = min(max(centre + self.step * (random.random() + np.random.random() - 1), low), high)
        return {"x": x, "n": parameter_id, "calls": list(self.calls)}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        reward = extract_scalar_reward(value)
        self.calls.append(["result", parameter_id, reward])
        if self.mode is OptimizeMode.Minimize:
            reward = -reward
        if self.best is None or reward > self.best[0]:
            self.best = (reward, parameters)
    def trial_end(self, parameter_id, success, **kwargs):
        self.calls.append(["end", parameter_id, success])

class Greedy(Climber):
    def import_data(self, data):
        self.calls += [["imported", entry["parameter"], entry["value"]] for entry in data]

class Curious(Climber):
    def __init__(self):
        super().__init__()
        self.accept_customized_trials()
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.calls.append([parameter_id, value, kwargs])
    def trial_end(self, parameter_id, success, **kwargs):
        pass

class Broken(Climber):
    def generate_parameters(self, parameter_id, **kwargs):
        raise ValueError("the tuner's own fault")

class Deadly(Climber):
    def generate_parameters(self, parameter_id, **kwargs):
        print("last words", file=sys.stderr, flush=True)
        os._exit(7)

class Below(Assessor):
    def __init__(self, least):
        self.least = least
    def assess_trial(self, trial_job_id, trial_history):
        good = extract_scalar_history(trial_history)[-1] >= self.least
        return AssessResult.Good if good else AssessResult.Bad

class LossBelow(Assessor):
    """Judges by another member than the default."""
    def assess_trial(self, trial_job_id, trial_history):
        return AssessResult.Good if trial_history[-1]["loss"] < 1 else AssessResult.Bad

class Undecided(Assessor):
    def assess_trial(self, trial_job_id, trial_history):
        return None

class Truth(Assessor):
    """Answers with the truth values that NNI takes as well."""
    def assess_trial(self, trial_job_id, trial_history):
        good = trial_history[-1] > 0.5
        return good if trial_job_id == "plain" else np.bool_(good)

class NoTuner:
    pass

class Numpy(Climber):
    """Proposes what numpy gives."""
    def generate_parameters(self, parameter_id, **kwargs):
        chosen = nni.parameter_expressions.choice([1, 2, 3], np.random.RandomState(parameter_id))
        return {"chosen": chosen, "real": np.float32(0.5), "is": np.bool_(True), "name": np.str_("a"),
                "array": np.array([[1, 2], [3, 4]]), "pair": (1, np.int64(2)), "inner": [{"n": np.int64(3)}],
                "no": None}

class TakesLittle(Tuner):
    """Methods with the arguments that every release of NNI passes, and no others."""
    def __init__(self):
        self.calls = []
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id):
        return {"calls": list(self.calls)}
    def receive_trial_result(self, parameter_id, parameters, value):
        self.calls.append(["result", parameter_id, value])
    def trial_end(self, parameter_id, success):
        self.calls.append(["end", parameter_id, success])

class TakesSome(TakesLittle):
    def generate_multiple_parameters(self, parameter_id_list):
        return [{"calls": list(self.calls)} for _ in parameter_id_list]
    def receive_trial_result(self, parameter_id, parameters, value, trial_job_id):
        self.calls.append(["result", parameter_id, value, trial_job_id])
    def trial_end(self, parameter_id, success, *, trial_job_id=None):
        self.calls.append(["end", parameter_id, success, trial_job_id])

class Returns(Climber):
    def __init__(self, kind):
        super().__init__()
        self.proposed = {"list": [1, 2], "set": {"x": {1}}, "nan": {"x": float("nan")}}[kind]
    def generate_parameters(self, parameter_id, **kwargs):
        return self.proposed

'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(ALGORITHMS)
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "lacking.py").write_text("import not_there\n")
    (tmp_path / "deep.py").write_text("import nni.algorithms.hpo\n")
    return tmp_path


@pytest.fixture
def client() -> Iterator[TunerClient]:
    made = TunerClient()
    yield made
    made.shutdown()


def own(folder: Path, name: str, **class_args: Any) -> dict[str, Any]:
    return {"class_name": name, "code_directory": str(folder), "class_args": class_args}


def spec(tuner: dict[str, Any], assessor: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"search_space": SPACE, "tuner": tuner, "assessor": assessor, "optimize_mode": "minimize", "seed": 5}


def result(future: "Future[Any]") -> Any:
    return future.result(WAIT)


def test_a_tuner_of_ones_own_gets_the_calls_that_nni_makes(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Greedy")), []))
    [first] = result(client.ask("e", 0, 1))["parameters"]
    assert first["n"] == 0
    result(client.tell("e", 0, first, 0.25, "SUCCEEDED"))
    result(client.tell("e", 0, first, 0.75, "SUCCEEDED"))
    result(client.tell("e", None, {"x": 0.1, "n": 3}, 0.5, "SUCCEEDED"))
    [second, third] = result(client.ask("e", 1, 2))["parameters"]
    result(client.tell("e", 1, second, None, "FAILED"))
    assert third["calls"] == [["result", 0, 0.25], ["end", 0, True], ["imported", {"x": 0.1, "n": 3}, 0.5]]
    assert result(client.ask("e", 3, 1))["parameters"][0]["calls"][-1] == ["end", 1, False]


def test_it_is_rebuilt_from_the_record_and_goes_on_as_before(client: TunerClient, folder: Path) -> None:
    document, events = spec(own(folder, "mine.Climber", optimize_mode="minimize")), []
    result(client.open("e", document, []))
    for number in range(12):
        [parameters] = result(client.ask("e", number, 1))["parameters"]
        events.append({"event": "ask", "number": number, "parameters": parameters})
        if number > 1:
            told = {"number": number - 2, "parameters": events[-3]["parameters"], "value": float(number % 5),
                    "status": "SUCCEEDED"}  # fmt: skip
            result(client.tell("e", **told))
            events.append({"event": "tell", **told})
    result(client.open("again", document, events))
    assert result(client.ask("again", 12, 3)) == result(client.ask("e", 12, 3))


def test_each_has_a_process_of_its_own_that_ends_with_it(client: TunerClient, folder: Path) -> None:
    result(client.open("built-in", spec({"name": "Random"}), []))
    result(client.open("e", spec(own(folder, "mine.Climber")), []))
    result(client.open("f", spec({"name": "Random"}, own(folder, "mine.Below", least=1)), []))
    pids = {client.pid, client.pid_of("e"), client.pid_of("f")}
    assert len(pids) == 3
    assert None not in pids
    client.close_experiment("e")
    assert client.pid_of("e") is None
    assert len(result(client.ask("f", 0, 1))["parameters"]) == 1


def test_one_that_kills_its_process_hurts_nobody_else(client: TunerClient, folder: Path) -> None:
    deaths: list[TunerProcessDied] = []
    client.on_death = deaths.append
    result(client.open("good", spec({"name": "Random"}), []))
    result(client.open("own", spec(own(folder, "mine.Climber")), []))
    result(client.open("deadly", spec(own(folder, "mine.Deadly")), []))
    error = client.ask("deadly", 0, 1).exception(WAIT)
    assert isinstance(error, TunerProcessDied)
    assert error.suspect == "deadly"
    assert "exit code 7" in str(error)
    assert "last words" in str(error)
    for name in ("good", "own"):
        assert len(result(client.ask(name, 0, 1))["parameters"]) == 1
    assert isinstance(client.ask("deadly", 0, 1).exception(WAIT), TunerProcessDied)
    result(client.open("deadly", spec(own(folder, "mine.Climber")), []))
    assert len(result(client.ask("deadly", 0, 1))["parameters"]) == 1
    assert [death.suspect for death in deaths] == ["deadly"]


def test_what_it_raises_is_the_answer(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Broken")), []))
    error = client.ask("e", 0, 1).exception(WAIT)
    assert isinstance(error, TunerFailed)
    assert error.message == "ValueError: the tuner's own fault"
    assert "generate_parameters" in error.traceback
    assert error.part == "tuner"


def test_a_tuner_may_propose_what_numpy_gives(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec(own(folder, "mine.Numpy")), []))
    [first] = result(client.ask("e", 0, 1))["parameters"]
    assert first.pop("chosen") in (1, 2, 3)
    assert first == {"real": 0.5, "is": True, "name": "a", "array": [[1, 2], [3, 4]], "pair": [1, 2],
                     "inner": [{"n": 3}], "no": None}
    document = {**spec(own(folder, "mine.Numpy")), "multi_phase": True}
    result(client.open("e", document, []))
    [given] = result(client.ask_for_trials("e", 0, ["t0"]))["given"]
    assert given["parameters"]["array"] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("name", "calls"), [
    ("TakesLittle", [["result", 0, 0.5], ["end", 0, True]]),
    ("TakesSome", [["result", 0, 0.5, "t0"], ["end", 0, True, "t0"]]),
])
def test_a_method_gets_the_arguments_that_it_takes(client: TunerClient, folder: Path, name: str, calls: list[Any]
                                                   ) -> None:
    result(client.open("e", spec(own(folder, f"mine.{name}")), []))
    [first] = result(client.ask("e", 0, 1))["parameters"]
    result(client.tell("e", 0, first, 0.5, "SUCCEEDED", trial="t0", result="0.5"))
    assert result(client.ask("e", 1, 1))["parameters"] == [{"calls": calls}]


@pytest.mark.parametrize(("kind", "words"), [
    ("list", "a parameter set must be a dict with the parameters by name, not [1, 2] (list)"),
    ("set", "the parameter set {'x': {1}} cannot be written as JSON: a set cannot be written as JSON"),
    ("nan", "the parameter set {'x': nan} cannot be written as JSON: "),
])
def test_what_is_no_parameter_set_is_said(client: TunerClient, folder: Path, kind: str, words: str) -> None:
    result(client.open("e", spec(own(folder, "mine.Returns", kind=kind)), []))
    error = client.ask("e", 0, 1).exception(WAIT)
    assert isinstance(error, TunerFailed)
    assert words in error.message


def test_no_more_trials_means_wait_while_some_run_and_the_end_when_none_does(
    client: TunerClient, folder: Path
) -> None:
    result(client.open("e", spec(own(folder, "mine.Climber", limit=2)), []))
    answer = result(client.ask("e", 0, 5))
    assert (len(answer["parameters"]), answer["exhausted"]) == (2, False)
    for number, parameters in enumerate(answer["parameters"]):
        result(client.tell("e", number, parameters, 1.0, "SUCCEEDED"))
    assert result(client.ask("e", 2, 1)) == {"parameters": [], "exhausted": True}


def test_an_assessor_of_ones_own_stops_trials(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec({"name": "Random"}, own(folder, "mine.Below", least=0.5)), []))
    reports = [{"trial": "a", "sequence": 0, "value": 0.9}, {"trial": "b", "sequence": 0, "value": 0.1}]
    assert result(client.intermediate("e", reports)) == {"stop": ["b"]}
    result(client.open("e", spec({"name": "Random"}, own(folder, "mine.Undecided")), []))
    error = client.intermediate("e", reports).exception(WAIT)
    assert isinstance(error, TunerFailed)
    assert "AssessResult.Good or AssessResult.Bad, or True or False, not None" in str(error)
    assert error.part == "assessor"


def test_an_assessor_may_answer_with_true_and_false(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec({"name": "Random"}, own(folder, "mine.Truth")), []))
    reports = [{"trial": trial, "sequence": sequence, "value": value}
               for sequence, value in enumerate((0.9, 0.1)) for trial in ("plain", "numpy")]
    assert result(client.intermediate("e", reports[:2])) == {"stop": []}
    assert result(client.intermediate("e", reports[2:])) == {"stop": ["plain", "numpy"]}


def test_an_assessor_of_ones_own_sees_whole_results(client: TunerClient, folder: Path) -> None:
    result(client.open("e", spec({"name": "Random"}, own(folder, "mine.LossBelow")), []))
    reports = [{"trial": "a", "sequence": sequence, "value": 0.5, "result": f'{{"default": 0.5, "loss": {loss}}}'}
               for sequence, loss in enumerate((0.25, 0.5))]
    assert result(client.intermediate("e", reports)) == {"stop": []}
    nothing = {"trial": "a", "sequence": 2, "value": None, "result": "NaN"}
    worse = {"trial": "a", "sequence": 3, "value": 0.5, "result": '{"default": 0.5, "loss": 3}'}
    assert result(client.intermediate("e", [nothing])) == {"stop": []}
    assert result(client.intermediate("e", [worse])) == {"stop": ["a"]}


def test_a_tuner_of_ones_own_gets_whole_results_and_those_of_trials_that_people_ran(
    client: TunerClient, folder: Path
) -> None:
    result(client.open("e", spec(own(folder, "mine.Curious")), []))
    [first] = result(client.ask("e", 0, 1))["parameters"]
    result(client.tell("e", 0, first, 0.5, "SUCCEEDED", trial="t0", result='{"default": 0.5, "loss": 2}'))
    result(client.tell("e", None, {"x": 9}, 0.25, "SUCCEEDED", trial="t1", result="0.25", customized=True))
    [second] = result(client.ask("e", 1, 1))["parameters"]
    assert second["calls"] == [[0, {"default": 0.5, "loss": 2}, {"customized": False, "trial_job_id": "t0"}],
                               [None, 0.25, {"customized": True, "trial_job_id": "t1"}]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine.Missing", "the module mine has no class Missing"),
        ("nowhere.Tuner", "there is no module nowhere in "),
        ("lacking.Tuner", "lacking imports not_there, which is not installed on the server"),
        ("deep.Tuner", "deep imports nni.algorithms"),
        ("mine.NoTuner", "mine.NoTuner is not a tuner: it has no method generate_parameters"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_explained(client: TunerClient, folder: Path, name: str, words: str) -> None:
    error = client.open("e", spec(own(folder, name)), []).exception(WAIT)
    assert isinstance(error, TunerFailed)
    assert words in error.message
