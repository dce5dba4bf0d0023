"""Multi-phase experiments through the whole server: trials that ask for one parameter set after the other."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.end_to_end.kill_table.dying_server import MULTI_PHASE_POINTS
from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.witnessed_parameter_sets import nothing_is_lost, sets_of, witnessed
from tests.fakes.official_nni import INSTALLATIONS, official_python

#: What NNI's own multi-phase test does: five questions, five results.
NNIS_TRIAL = """\
import nni

for number in range(5):
    given = nni.get_next_parameter()
    print("given", given, flush=True)
    if given is None:
        break
    nni.report_final_result(0.1 * number)
"""
#: A file in NNI's first form, with its fields for such an experiment.
FILE = """\
authorName: someone
experimentName: several parameter sets
maxExecDuration: 5m
maxTrialNum: 2
trialConcurrency: 2
searchSpacePath: space.json
tuner:
  builtinTunerName: {tuner}
trial:
  codeDir: .
  command: {python} trial.py
  gpuNum: 0
useAnnotation: false
multiPhase: true
multiThread: false
trainingServicePlatform: local
"""
SPACE = {"test": {"_type": "choice", "_value": [1, 100]}}
def nnis_experiment(server: RunningServer, folder: Path, tuner: str, python: str = "python3") -> list[dict[str, Any]]:
    """The trials of NNI's own test, when the experiment is done."""
    code = folder / "code"
    code.mkdir()
    (code / "trial.py").write_text(NNIS_TRIAL)
    (code / "space.json").write_text(json.dumps(SPACE))
    experiment = server.launch(FILE.format(tuner=tuner, python=python), code)
    server.wait_for_experiment(experiment, patience=120)
    return server.get_all(f"experiments/{experiment}/trials/")


def has_five_results(server: RunningServer, trial: dict[str, Any]) -> None:
    assert trial["status"] == "SUCCEEDED", trial["message"]
    assert [row["final_number"] for row in sets_of(server, trial)] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert (trial["parameter_set_count"], trial["final_number"]) in ((5, pytest.approx(0.4)), (5, pytest.approx(0.0)))


def test_nnis_own_trial_gives_its_five_results(running_server: RunningServer, tmp_path: Path) -> None:
    trials = nnis_experiment(running_server, tmp_path, "TPE")
    assert len(trials) == 2
    for trial in trials:
        has_five_results(running_server, trial)
    ids = [row["parameter_id"] for trial in trials for row in sets_of(running_server, trial)]
    assert sorted(ids) == list(range(10)), "each set has a parameter id of its own"
    experiment = trials[0]["experiment"]
    exported = running_server.request("GET", f"experiments/{experiment}/export/", params={"format": "json"}).json()
    assert [len(trial["parameter_sets"]) for trial in exported["trials"]] == [5, 5]


@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["Evolution", "Anneal", "Random", "MetisTuner", "SMAC"])
def test_nnis_own_trial_gives_its_five_results_with_each_tuner_of_nnis(running_server: RunningServer, tmp_path: Path,
                                                                       tuner: str) -> None:
    for trial in nnis_experiment(running_server, tmp_path, tuner):
        has_five_results(running_server, trial)


@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["GridSearch", "BatchTuner"])
def test_where_the_tuner_has_no_more_the_trial_is_told_none(running_server: RunningServer, tmp_path: Path, tuner: str
                                                            ) -> None:
    trials = nnis_experiment(running_server, tmp_path, tuner)
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * len(trials)
    given = [row for trial in trials for row in sets_of(running_server, trial) if row["value"] is not None]
    assert sorted(row["value"]["test"] for row in given) == [1, 100], "each point once"
    output = running_server.get(f"trials/{trials[0]['id']}/output/", stream="stdout")["text"]
    assert output.rstrip().endswith("given None")
    assert ("{" in output) is (tuner != "BatchTuner"), "NNI's BatchTuner hands plain options over as they are"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", list(INSTALLATIONS))
def test_under_the_official_package_nnis_own_trial_gives_its_five_results(
        running_server: RunningServer, tmp_path: Path, version: str) -> None:
    trials = nnis_experiment(running_server, tmp_path, "TPE", str(official_python(version)))
    assert len(trials) == 2
    for trial in trials:
        has_five_results(running_server, trial)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", list(MULTI_PHASE_POINTS))
def test_a_server_that_dies_at_a_point_loses_no_parameter_set_and_gives_none_twice(
        make_server: Any, tmp_path: Path, point: str) -> None:
    server, random = make_server(), Random(point)
    server.start()
    experiment = witnessed(server, tmp_path, sets=30)
    server.kill()
    for _ in range(3):
        server.start(program=("-m", "tests.end_to_end.kill_table.dying_server", point, str(random.randint(1, 4))),
                     wait=False)
        assert server.wait_for_end(120) == -signal.SIGKILL, server.log_tail()
    server.start()
    nothing_is_lost(server, experiment, tmp_path, 30)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_that_is_killed_at_random_times_loses_no_parameter_set(running_server: RunningServer, tmp_path: Path
                                                                        ) -> None:
    experiment, random = witnessed(running_server, tmp_path, sets=60), Random(1)
    for _ in range(4):
        def given() -> int:
            return sum(trial["parameter_set_count"] for trial in running_server.get_all(
                f"experiments/{experiment}/trials/"))
        more = given() + random.randint(5, 15)
        running_server.wait_until(lambda: given() > more, what="trials go on")  # noqa: B023
        running_server.kill()
        running_server.start()
    nothing_is_lost(running_server, experiment, tmp_path, 60)
