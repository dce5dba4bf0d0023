"""The rewritten code runs with our module and with the official packages, old and new, and reports the same."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.official_nni import INSTALLATIONS, official_python
from tests.nniweb.annotation.annotated_code import carried_out
from tests.nniweb.annotation.test_nni_testcases import MNIST
from tests.trialkeeper.keeper_run import NO_OLD_PYTHON, old_python
from tests.trialkeeper.test_nni_module import Trial
from tests.trialkeeper.test_nni_module import for_trials as for_trials

#: After it, a call in the form that NNI makes of annotations.
BY_HAND = '''
import json, nni
drawn = nni.choice({'double': lambda x: 2 * x, "it's": lambda x: -x}, name='how')(4)
nni.report_final_result(drawn)
open('said.json', 'w').write(json.dumps([built, size, vars(network), drawn]))
'''
PARAMETERS = {
    "mnist/self.conv_size/choice": 3, "mnist/self.hidden_size/choice": 124, "mnist/self.learning_rate/loguniform": 0.05,
    "mnist/tf.nn.relu/function_choice": "tf.nn.tanh(x + b)", "mnist/batch_size/choice": 32,
    "mnist/max_pool/function_choice": "avg_pool(h, self.pool_size)", "mnist/dropout_rate/choice": 0.9,
    "mnist/how/choice": "it's"}
SAID = [["avg", ["tanh", 3], 2], 32, {"conv_size": 3, "hidden_size": 124, "learning_rate": 0.05, "pool_size": 2}, -4]
METRICS = [("PERIODICAL", 0, 0.9), ("PERIODICAL", 1, 1.9), ("FINAL", 0, 1.9), ("FINAL", 0, -4)]


def run(folder: Path, for_trials: Path, python: str, **variables: Any) -> None:
    """A trial with these parameters; what it computes and reports is what the annotations mean."""
    source = carried_out(MNIST + BY_HAND, "mnist").source
    assert source is not None
    trial = Trial(folder, for_trials)
    trial.python = python
    trial.give(PARAMETERS, parameter_id=7)
    (folder / "mnist.py").write_bytes(source)
    trial.run("import runpy, warnings; warnings.simplefilter('ignore'); "
              "runpy.run_path('mnist.py', run_name='__main__')", MULTI_PHASE="false", REUSE_MODE="false", **variables)
    assert json.loads((folder / "said.json").read_text()) == SAID
    metrics = [(one["kind"], one["sequence"], json.loads(one["value"])) for one in trial.metrics()]
    assert metrics == METRICS
    assert {one["parameter_id"] for one in trial.metrics()} == {7}


def test_it_runs_with_our_module(tmp_path: Path, for_trials: Path) -> None:
    (tmp_path / "sys").mkdir()
    run(tmp_path / "sys", for_trials, sys.executable)


def test_it_runs_on_an_old_python(tmp_path: Path, for_trials: Path) -> None:
    python = old_python()
    if python is None:
        pytest.skip(NO_OLD_PYTHON)
    (tmp_path / "sys").mkdir()
    run(tmp_path / "sys", for_trials, shutil.which(python) or python)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", INSTALLATIONS)
def test_it_runs_with_the_official_package(tmp_path: Path, for_trials: Path, version: str) -> None:
    (tmp_path / "sys").mkdir()
    run(tmp_path / "sys", for_trials, str(official_python(version)), PYTHONPATH=None)
