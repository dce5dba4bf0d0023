"""The official nni package and our own small module, side by side: the same parameters in, the same metrics out."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.official_nni import INSTALLATIONS, OLD_INSTALLATIONS, official_python
from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.agent_process import AgentProcess
from tests.trialkeeper.keeper_run import NO_OLD_PYTHON, KeeperRun, old_python
from tests.trialkeeper.test_nni_module import Trial
from tests.trialkeeper.test_nni_module import for_trials as for_trials
from tests.trialkeeper.warm_attempts import WarmAttempts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

#: What a trial answers goes to a file: older releases catch print().
BEGIN = "import json, math, warnings; warnings.simplefilter('ignore'); import nni; said = []; say = said.append\n"
END = "\nopen('said.json', 'w').write(json.dumps(said))\n"
PARAMETERS = {"lr": 0.1, "layer": {"_name": "Conv", "kernel": 3}, "text": "ü"}
CALLS = """
say(nni.get_current_parameter())
say(nni.get_next_parameter())
say(nni.get_current_parameter())
say(nni.get_current_parameter('lr'))
say([nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id()])
for value in (0.1, 1, True, None, 'text', float('nan'), float('inf'), [1, 2], {'default': 0.5, 'loss': 2}, "it's"):
    nni.report_intermediate_result(value)
nni.report_final_result({'default': 0.75, 'other': [1, None]})
nni.report_final_result(0.5)
say(nni.get_next_parameter())
"""
PHASES = """
while (given := nni.get_next_parameter()) is not None:
    say(given)
    nni.report_intermediate_result(given['x'])
    nni.report_final_result(given['x'] * 2)
say(nni.get_current_parameter())
"""
NEVER_ASKS = """
for report in (nni.report_intermediate_result, nni.report_final_result):
    try:
        report(1)
        say('reported')
    except AssertionError:
        say('refused')
"""
STANDALONE = """
say([nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id()])
say(nni.get_next_parameter())
nni.report_intermediate_result(0.5)
nni.report_final_result({'default': 1})
"""
NUMPY = """
import numpy
nni.get_next_parameter()
for value in (numpy.float32(0.5), numpy.int64(3), numpy.bool_(True), {'default': numpy.float64(0.25)}):
    nni.report_intermediate_result(value)
"""
ODD_VALUES = """
import numpy
nni.get_next_parameter()
for value in (numpy.array([1.5, 2]), numpy.array([[1, 2], [3, 4]], dtype='int8').T, numpy.array([[1]]),
              numpy.array(3.0), numpy.array([]), numpy.array(['a', 'b']), {3, 1}, 1 + 2j, numpy.complex128(1j),
              (1, 2), {'default': {2}}):
    nni.report_intermediate_result(value)
"""
CASES: dict[str, tuple[str, list[Any], dict[str, str | None]]] = {
    "all calls": (CALLS, [PARAMETERS], {"MULTI_PHASE": "false"}),
    "several phases": (PHASES, [{"x": 1}, {"x": 2}, {"x": 3}, None], {"MULTI_PHASE": "true"}),
    "never asks for parameters": (NEVER_ASKS, [PARAMETERS], {}),
    "without a manager": (STANDALONE, [], dict.fromkeys(
        ["NNI_PLATFORM", "NNI_EXP_ID", "NNI_TRIAL_JOB_ID", "NNI_TRIAL_SEQ_ID", "NNI_SYS_DIR", "NNI_OUTPUT_DIR"])),
    "numbers of numpy": (NUMPY, [PARAMETERS], {}),
    "arrays, sets, complex numbers": (ODD_VALUES, [PARAMETERS], {}),
}


def run(folder: Path, for_trials: Path, python: str, case: str, is_ours: bool) -> tuple[Any, list[dict[str, Any]]]:
    """What the trial said, and its metrics."""
    code, parameters, variables = CASES[case]
    folder.mkdir()
    trial = Trial(folder, for_trials)
    trial.python = python
    for index, given in enumerate(parameters):
        trial.give(given, index=index, parameter_id=10 + index)
    trial.run(BEGIN + code + END, REUSE_MODE="false", **({} if is_ours else {"PYTHONPATH": None}), **variables)
    metrics = trial.metrics() if (folder / ".nni" / "metrics").exists() else []
    return json.loads((folder / "said.json").read_text()), metrics


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", INSTALLATIONS)
def test_the_official_package_and_our_module_give_identical_results(
    tmp_path: Path, for_trials: Path, version: str, case: str
) -> None:
    official = run(tmp_path / "official", for_trials, str(official_python(version)), case, is_ours=False)
    ours = run(tmp_path / "ours", for_trials, sys.executable, case, is_ours=True)
    assert ours == official
    assert ours[0] or ours[1], "something was compared"


@pytest.mark.parametrize("version", INSTALLATIONS)
def test_a_warm_trial_with_the_official_package_reports_what_a_plain_one_reports(
        version: str, tmp_path: Path, agents: Callable[..., AgentProcess]) -> None:
    command = f"{official_python(version)} trial.py"
    attempts = WarmAttempts(agents(), tmp_path, BEGIN + CALLS + "say({'module': nni.__file__})" + END)
    attempts.fields = {"parameters": [
        {"index": 0, "text": json.dumps({"parameter_id": 10, "parameters": PARAMETERS})}]}
    try:
        told = []
        for run in (attempts.run(command, warm=False), attempts.until_warm(command=command)):
            said = json.loads((attempts.code / "said.json").read_text())
            assert "site-packages" in said[-1]["module"]
            metrics = [[entry[name] for name in ("kind", "sequence", "parameter_id", "value")]
                       for entry in run.journal_lines() if entry.get("type") == "metric"]
            told.append(([answer for answer in said if not isinstance(answer, list)], metrics))
    finally:
        attempts.clean_up()
    assert told[0] == told[1]
    assert len(told[0][1]) == 12


def interpreter_with(version: str) -> str:
    """A Python with this official release. Skips where there can be none."""
    if version in INSTALLATIONS:
        return str(official_python(version))
    if (old := old_python("3.6")) is None:
        pytest.skip(NO_OLD_PYTHON % "3.6")
    return str(official_python(version, old))


@pytest.mark.parametrize("version", [*INSTALLATIONS, *OLD_INSTALLATIONS])
def test_a_trial_with_the_official_package_is_run_and_heard_by_a_keeper(
        version: str, tmp_path: Path, keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    where = tmp_path / "where"
    code = ("import nni; x = nni.get_next_parameter()['x']; nni.report_intermediate_result(x); "
            f"nni.report_final_result(x + 0.5); open('{where}', 'w').write(nni.__file__)")
    assert keeper.run(f"{interpreter_with(version)} -c {shlex.quote(code)}", seconds=120) == 0
    assert [(entry["kind"], entry["value"]) for entry in server.of_type("metric")] \
        == [("PERIODICAL", "1"), ("FINAL", "1.5")]
    assert "site-packages" in where.read_text()
    assert server.ended is not None
    assert server.ended["exit_code"] == 0
