"""The tuner process loads what its experiments need: it starts with each server, also where nothing is searched."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
#: Libraries that some experiments need, or that Optuna loads for storages.
LIBRARIES = ("lark", "optuna", "redis", "scipy", "sklearn", "nniweb.tuning.guidance")
PROGRAM = f"""
import json, sys
from nniweb.tuning.process.experiment_tuning import ExperimentTuning
import nniweb.tuning.process.tuner_process

def loaded():
    return [name for name in {LIBRARIES!r} if sys.modules.get(name)]

SPEC = {{"search_space": {{"x": {{"_type": "uniform", "_value": [0, 1]}}}}, "optimize_mode": "minimize", "seed": 1}}
told = [loaded()]
for more in ({{}}, {{"constraints": ["x < 0.5"]}}, {{"start_points": [{{"x": 0.25}}]}}):
    tuning = ExperimentTuning({{**SPEC, "tuner": {{"name": "TPE"}}, **more}})
    told.append([loaded(), tuning.ask(0, 1)["parameters"][0]["x"]])
import redis  # which a tuner of a person's own may want afterwards
print(json.dumps(told))
"""


def test_a_library_is_loaded_with_the_first_experiment_that_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    at_first, plain, constrained, guided = json.loads(done.stdout)
    assert at_first == []
    assert plain[0] == ["optuna"]
    assert constrained[0] == ["lark", "optuna"]
    assert constrained[1] < 0.5
    assert guided == [["lark", "optuna", "nniweb.tuning.guidance"], 0.25]
