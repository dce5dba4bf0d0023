"""Code with annotations through the whole server: the search space, trials in rewritten copies, results, tracebacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.platforms.test_found_again_on_each_platform import (
    Platform,
    azureml,
    dlts,
    kubernetes,
    openpai,
    remote,
    slurm,
)
from tests.end_to_end.running_server import RunningServer

TRAIN = '''\
"""Learns nothing."""
import os
import network

def double(x): return 2 * x
def half(x): return x / 2

"""@nni.get_next_parameter()"""
"""@nni.variable(nni.choice(1, 2, 4), name=size)"""
size = 100
"""@nni.function_choice(double(size), half(size),
                        name=double)"""
result = double(size)
for step in range(2):
    """@nni.report_intermediate_result(result + step)"""
net = network.Network()
"""@nni.report_final_result({"default": result, "rate": net.rate})"""
if os.environ.get("FAILS"):
    raise SystemExit(result / 0)
'''
NETWORK = '''\
class Network:
    def __init__(self, rate=0.5):
        """@nni.variable(nni.uniform(2, 3), name=self.rate)"""
        self.rate = rate
'''
SPACE = {"train/size/choice": {"_type": "choice", "_value": [1, 2, 4]},
         "train/double/function_choice": {"_type": "choice", "_value": ["double(size)", "half(size)"]},
         "network/self.rate/uniform": {"_type": "uniform", "_value": [2, 3]}}
FUNCTIONS: dict[str, Callable[[float], float]] = {"double(size)": lambda x: 2 * x, "half(size)": lambda x: x / 2}


def local(folder: Path, ends: ExitStack) -> Platform:
    return {"platform": "local"}, {}


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "network.py").write_text(NETWORK)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("platform", [local, remote, kubernetes, openpai, dlts, azureml, slurm],
                         ids=lambda make: make.__name__)
def test_trials_run_with_the_parameters_that_the_annotations_ask_for(
        make_server: Callable[..., RunningServer], tmp_path: Path, ends: ExitStack, code: Path,
        platform: Callable[[Path, ExitStack], Platform]) -> None:
    section, env = platform(tmp_path / "platform", ends)
    server = make_server(env)
    server.start(env={} if platform is local else {"NNIWEB_PUBLIC_URL": server.url})
    experiment = server.launch({"useAnnotation": True, "trialCommand": "python3 train.py", "trialConcurrency": 2,
                                "maxTrialNumber": 4, "tuner": {"name": "Random"}, "seed": 3,
                                "trainingService": section}, code)
    assert server.get(f"experiments/{experiment}/")["search_space"] == SPACE
    server.wait_for_experiment(experiment, patience=240)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * 4
    for trial in trials:
        given = trial["parameters"]
        assert set(given) == set(SPACE)
        expected = FUNCTIONS[given["train/double/function_choice"]](given["train/size/choice"])
        metrics = {kind: [row["value"] for row in server.get_all(f"trials/{trial['id']}/metrics/", kind=kind)]
                   for kind in ("PERIODICAL", "FINAL")}
        assert trial["final_number"] == expected
        assert [json.loads(value) for value in metrics["PERIODICAL"]] == [expected, expected + 1]
        assert [json.loads(value) for value in metrics["FINAL"]] == [
            {"default": expected, "rate": given["network/self.rate/uniform"]}]
    assert len({str(trial["parameters"]) for trial in trials}) == 4
    assert ((code / "train.py").read_text(), (code / "network.py").read_text()) == (TRAIN, NETWORK)
    assert {path.name for path in code.iterdir()} == {"train.py", "network.py"}, "no trial has run in the folder"


@pytest.mark.slow
def test_the_traceback_of_a_failed_trial_names_the_persons_line(running_server: RunningServer, code: Path) -> None:
    server = running_server
    experiment = server.launch({"useAnnotation": True, "trialCommand": "python3 train.py", "trialConcurrency": 1,
                                "maxTrialNumber": 1, "tuner": {"name": "Random"}, "environment": {"FAILS": "1"},
                                "trainingService": {"platform": "local"}}, code)
    server.wait_for_experiment(experiment, patience=120)
    [trial] = server.get_all(f"experiments/{experiment}/trials/")
    assert trial["status"] == "FAILED"
    line = TRAIN.splitlines().index("    raise SystemExit(result / 0)") + 1
    output = server.request("GET", f"trials/{trial['id']}/output/text/", params={"stream": "stderr"}).text
    assert f'train.py", line {line}, in <module>' in output
    assert "ZeroDivisionError" in output
