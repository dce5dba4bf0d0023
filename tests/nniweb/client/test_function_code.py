"""A function on its way to trials, and the program that calls it there."""

import functools
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nniweb.client import ClientError
from nniweb.client.function_code import START, write_function
from tests.trialkeeper.test_nni_module import Trial
from tests.trialkeeper.test_nni_module import for_trials as for_trials

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}, "units": {"_type": "choice", "_value": [1, 2]}}


def call_of(function: Any, folder: Path, space: Any = SPACE) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    files = write_function(function, space, folder)
    found: dict[str, Any] = json.loads(files["nniweb_run/call.json"].read_text())
    return found


def test_a_function_with_the_names_of_the_space_gets_keywords(tmp_path: Path) -> None:
    def exactly(x: float, units: int) -> float: return x * units
    def with_more(units: int, x: float, batch: int = 8) -> float: return x * units * batch
    def with_any(**given: Any) -> float: return float(given["x"])
    def only_by_name(*, x: float, units: int) -> float: return x * units

    for function, names in ((exactly, ["x", "units"]), (with_more, ["units", "x", "batch"]), (with_any, None),
                            (only_by_name, ["x", "units"]),
                            (functools.partial(with_more, batch=2), ["units", "x", "batch"])):
        call = call_of(function, tmp_path)
        assert (call["takes"], call["names"]) == ("keywords", names), function


def test_a_function_with_one_other_parameter_gets_a_dictionary(tmp_path: Path) -> None:
    def train(parameters: dict[str, Any], epochs: int = 3) -> float: return float(parameters["x"]) * epochs

    assert call_of(train, tmp_path)["takes"] == "dictionary"
    assert call_of(lambda x: x, tmp_path, {"x": SPACE["x"]})["takes"] == "keywords"


def test_a_function_that_cannot_be_called_or_sent_is_refused_with_a_sentence(tmp_path: Path) -> None:
    def lacks(x: float) -> float: return x
    def wants_more(x: float, units: int, depth: int) -> float: return x * units * depth
    async def waits(x: float, units: int) -> float: return x * units
    lock = threading.Lock()

    def uses_a_lock(x: float, units: int) -> float:
        with lock:
            return x * units

    for function, words in ((wants_more, "missing a required argument: 'depth'"), (waits, "is an async function"),
                            (uses_a_lock, "exists only here, such as an open file, a connection or a lock"),
                            (7, "takes a function, or a command as a text, not int"), (max, "max")):
        with pytest.raises(ClientError, match=words):
            call_of(function, tmp_path)
    with pytest.raises(ClientError, match=r"search space \(x, units, y\)"):
        call_of(wants_more, tmp_path, {**SPACE, "y": SPACE["x"]})
    assert call_of(lacks, tmp_path, {"lr": SPACE["x"]})["takes"] == "dictionary"


#: A program whose function uses a module beside it, one of a package, and what the program itself has.
PROGRAM = """
import json, sys
from pathlib import Path
import beside
from parts.inner import double
from nniweb.client.function_code import write_function

FACTOR = 10

def by_steps(x, units):
    for step in range(units):
        yield beside.half(x)
    return {"default": double(x) * FACTOR}

def plainly(parameters):
    return parameters["x"]

def only_yields(x, units):
    yield x
    yield x + 1

class Tensor:  # one number, as libraries for arrays have it
    def __init__(self, number): self.number = number
    def item(self): return self.number

def of_a_library(x, units):
    yield Tensor(0.5)
    return {"default": Tensor(0.25), "loss": 1}

def in_words(x, units):
    return "0.5"

def two_numbers(x, units):
    return [1, 2]

def nothing(x, units):
    pass

def fails(x, units):
    raise ValueError("too deep")

target = Path(sys.argv[2])
files = write_function(globals()[sys.argv[1]], {"x": {}, "units": {}}, target)
print(json.dumps({name: str(path) for name, path in files.items()}))
"""


@pytest.fixture
def sent(tmp_path: Path) -> Any:
    """Sends a function of the program, and makes of it the working directory of a trial."""
    source = tmp_path / "source"
    (source / "parts").mkdir(parents=True)
    (source / "beside.py").write_text("def half(x): return x / 2\n")
    (source / "parts" / "__init__.py").write_text("")
    (source / "parts" / "inner.py").write_text("def double(x): return x * 2\n")
    (source / "never_imported.py").write_text("raise AssertionError\n")
    (source / "program.py").write_text(PROGRAM)

    def send(name: str, trial: Trial) -> dict[str, str]:
        (tmp_path / "written").mkdir()
        done = subprocess.run([sys.executable, str(source / "program.py"), name, str(tmp_path / "written")],
                              cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])})
        assert done.returncode == 0, done.stderr
        files: dict[str, str] = json.loads(done.stdout)
        for inner, path in files.items():
            (trial.folder / inner).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, trial.folder / inner)
        return files

    return send


@pytest.fixture
def trial(tmp_path: Path, for_trials: Path) -> Trial:
    (tmp_path / "sys").mkdir()
    trial = Trial(tmp_path / "sys", for_trials)
    trial.give({"x": 3, "units": 2, "TRIAL_BUDGET": 9})
    return trial


def started(trial: Trial) -> subprocess.CompletedProcess[str]:
    """As the trial command does it."""
    return subprocess.run([sys.executable, START], cwd=trial.folder, capture_output=True, text=True, timeout=60,
                          check=False, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(trial.for_trials),
                                            **trial.variables})


def values(trial: Trial) -> list[tuple[str, Any]]:
    return [(metric["kind"], json.loads(metric["value"])) for metric in trial.metrics()]


def test_what_a_function_yields_is_intermediate_and_what_it_returns_is_the_result(sent: Any, trial: Trial) -> None:
    files = sent("by_steps", trial)
    assert {name for name in files if not name.startswith("nniweb_run/")} == {
        "beside.py", "parts/__init__.py", "parts/inner.py"}
    done = started(trial)
    assert done.returncode == 0, done.stderr
    assert values(trial) == [("PERIODICAL", 1.5), ("PERIODICAL", 1.5), ("FINAL", {"default": 60})]


@pytest.mark.parametrize(("name", "expected"), [
    ("plainly", [("FINAL", 3)]), ("only_yields", [("PERIODICAL", 3), ("PERIODICAL", 4), ("FINAL", 4)]),
    ("of_a_library", [("PERIODICAL", 0.5), ("FINAL", {"default": 0.25, "loss": 1})])])
def test_a_function_gets_a_dictionary_and_what_it_yields_and_returns_counts_as_numbers(
        sent: Any, trial: Trial, name: str, expected: list[Any]) -> None:
    sent(name, trial)
    done = started(trial)
    assert done.returncode == 0, done.stderr
    assert values(trial) == expected


@pytest.mark.parametrize(("name", "words"), [("nothing", "nothing returned no result. Return a number"),
                                             ("in_words", "in_words returned no number, but a value of type str."),
                                             ("two_numbers", "two_numbers returned no number"),
                                             ("fails", "ValueError: too deep")])
def test_a_function_without_a_result_fails_its_trial(sent: Any, trial: Trial, name: str, words: str) -> None:
    sent(name, trial)
    done = started(trial)
    assert done.returncode != 0
    assert words in done.stderr
    assert trial.metrics() == []


def test_a_trial_with_another_python_says_so(sent: Any, trial: Trial) -> None:
    sent("plainly", trial)
    file = trial.folder / "nniweb_run" / "call.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "python": "3.99"}))
    done = started(trial)
    assert done.returncode == 1
    assert "The function was sent by Python 3.99, and this trial runs with Python 3." in done.stderr
