"""What users' tuners find as ``nni.common.hpo_utils``: by itself, and beside what NNI 3.0 has under that name."""

import itertools
import json
import math
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.custom_algorithms.nni import NoMoreTrialError
from nniweb.tuning.custom_algorithms.nni.hpo_utils import (
    Deduplicator,
    deformat_parameters,
    format_parameters,
    format_search_space,
)
from nniweb.tuning.custom_algorithms.nni.utils import convert_dict2tuple, split_index
from nniweb.tuning.process.tuner_client import TunerClient
from tests.fakes.official_nni import official_python
from tests.nniweb.tuning.custom_algorithms.test_own_classes import own, result

FLAT = {
    "choice": {"_type": "choice", "_value": ["a", 2, 3.5]}, "randint": {"_type": "randint", "_value": [-2, 5]},
    "fraction": {"_type": "randint", "_value": [0.5, 3.5]}, "uniform": {"_type": "uniform", "_value": [-1, 2]},
    "quniform": {"_type": "quniform", "_value": [1, 5, 2]}, "loguniform": {"_type": "loguniform", "_value": [0.01, 10]},
    "qloguniform": {"_type": "qloguniform", "_value": [0.5, 100, 3]}, "normal": {"_type": "normal", "_value": [1, 2]},
    "qnormal": {"_type": "qnormal", "_value": [1, 2, 0.5]}, "lognormal": {"_type": "lognormal", "_value": [0, 1]},
    "qlognormal": {"_type": "qlognormal", "_value": [0, 1, 0.25]}}
NESTED = {
    "net": {"_type": "choice", "_value": [
        {"_name": "conv", "kernel": {"_type": "choice", "_value": [1, 3]},
         "norm": {"_type": "choice", "_value": [{"_name": "batch", "eps": {"_type": "uniform", "_value": [0, 1]}},
                                                {"_name": "none"}]}},
        {"_name": "dense", "units": {"_type": "randint", "_value": [8, 64]}},
        {"_name": "empty"}]},
    "rate": {"_type": "loguniform", "_value": [0.001, 1]}}
#: NNI's own tuners fail at choices inside of choices.
ONCE_NESTED = {"net": {"_type": "choice", "_value": NESTED["net"]["_value"][1:]}, "rate": NESTED["rate"],
               "q": FLAT["quniform"]}
FINITE = {"a": {"_type": "choice", "_value": [1, 2]}, "b": {"_type": "randint", "_value": [0, 3]},
          "c": {"_type": "quniform", "_value": [0, 5, 2]}}


def points(space: dict[str, Any], count: int, seed: int = 1) -> Iterator[dict[Any, Any]]:
    """Random flat points, also of types without bounds."""
    draw = random.Random(seed)
    specs = format_search_space(space)
    for _ in range(count):
        point: dict[Any, Any] = {}
        for key, spec in specs.items():
            if spec.is_activated_in(point):
                point[key] = (draw.randrange(spec.size) if spec.categorical else draw.gauss(spec.mu, spec.sigma)
                              if spec.normal_distributed else draw.uniform(spec.low, spec.high))
        yield point


def test_a_space_becomes_a_table_of_its_parameters() -> None:
    specs = format_search_space(NESTED)
    assert list(specs) == [
        ("net",), ("net", 0, "kernel"), ("net", 0, "norm"), ("net", 0, "norm", 0, "eps"), ("net", 1, "units"),
        ("rate",)]
    units, rate = specs["net", 1, "units"], specs["rate",]
    assert (units.name, units.type, units.values, units.categorical, units.size) == ("units", "randint", [8, 64], True,
                                                                                     56)
    assert (rate.low, rate.high, rate.log_distributed, rate.q, rate.clip) == (math.log(0.001), 0, True, None, None)
    assert units.is_activated_in({("net",): 1})
    assert not units.is_activated_in({("net",): 0})
    assert not specs["net", 0, "norm", 0, "eps"].is_activated_in({("net",): 1})
    assert rate.is_activated_in({})


def test_flat_points_become_parameters_and_back() -> None:
    specs = format_search_space(NESTED)
    point = {("net",): 0, ("net", 0, "kernel"): 1, ("net", 0, "norm"): 0, ("net", 0, "norm", 0, "eps"): 0.25,
             ("rate",): math.log(0.5)}
    parameters = {"net": {"_name": "conv", "kernel": 3, "norm": {"_name": "batch", "eps": 0.25}}, "rate": 0.5}
    assert deformat_parameters(point, specs) == parameters
    assert format_parameters(parameters, specs) == point
    rounded = deformat_parameters({("quniform",): 4.9, ("randint",): 0, ("fraction",): 2}, format_search_space(FLAT))
    assert rounded == {"quniform": 4.0, "randint": -2, "fraction": 3}


def test_duplicates_are_replaced_until_there_is_no_other_point() -> None:
    specs = format_search_space(FINITE)
    only_one = {("a",): 0, ("b",): 0, ("c",): 0.0}
    deduplicator = Deduplicator(specs)
    deduplicator.add_history({("a",): 1, ("b",): 2, ("c",): 4.0})
    found = [deformat_parameters(deduplicator(only_one), specs) for _ in range(17)]
    with pytest.raises(NoMoreTrialError):
        deduplicator(only_one)
    assert found[0] == {"a": 1, "b": 0, "c": 0.0}
    everything = [{"a": a, "b": b, "c": c} for a, b, c in itertools.product([1, 2], [0, 1, 2], [0.0, 2.0, 4.0])]
    everything.remove({"a": 2, "b": 2, "c": 4.0})
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, everything))


def test_duplicates_of_an_endless_space_that_may_repeat_are_replaced_too() -> None:
    space = {"net": {"_type": "choice", "_value": [{"_name": "none"},
                                                   {"_name": "some", "x": {"_type": "uniform", "_value": [0, 1]}}]}}
    specs = format_search_space(space)
    deduplicator = Deduplicator(specs)
    found = [json.dumps(deformat_parameters(deduplicator({("net",): 0}), specs)) for _ in range(20)]
    assert len(set(found)) == 20
    endless = Deduplicator(format_search_space(FLAT))
    point = next(points(FLAT, 1))
    assert endless(point) == endless(point) == point


def test_small_things_of_nni_utils() -> None:
    nested = {"net": {"_index": 1, "_value": {"_name": "a", "n": {"_index": 0, "_value": 7}}}, "x": 2}
    assert split_index(nested) == {"net": {"_name": "a", "n": 7}, "x": 2}
    assert convert_dict2tuple({"b": {"c": 1}, "a": 2}) == (("a", 2), ("b", (("c", 1),)))


OFFICIAL = """
import json, sys
from nni.common.hpo_utils import deformat_parameters, format_parameters, format_search_space
answers = []
for space, points in json.load(sys.stdin):
    specs = format_search_space(space)
    table = [[list(key), list(spec)] for key, spec in specs.items()]
    given = [deformat_parameters({tuple(key): number for key, number in point}, specs) for point in points]
    back = [[[list(key), number] for key, number in format_parameters(one, specs).items()] for one in given]
    answers.append([table, given, back])
print(json.dumps(answers))
"""


@pytest.mark.slow
def test_nni_3_has_the_same_tables_parameters_and_points() -> None:
    asked = [(space, list(points(space, 40))) for space in (FLAT, NESTED, FINITE)]
    # what was not chosen inside of a choice that was not chosen makes NNI's own function fail: none of these
    asked[1][1][:] = [point for point in asked[1][1] if point["net",] == 0]
    text = json.dumps([[space, [[[list(key), number] for key, number in point.items()] for point in given]]
                       for space, given in asked])
    done = subprocess.run([str(official_python("3.0")), "-c", OFFICIAL], input=text, capture_output=True, text=True,
                          timeout=120, check=True)
    for (space, given), (table, parameters, back) in zip(asked, json.loads(done.stdout), strict=True):
        specs = format_search_space(space)
        assert json.loads(json.dumps([[key, spec] for key, spec in specs.items()])) == table
        ours = [deformat_parameters(point, specs) for point in given]
        assert ours == parameters
        assert [[[list(key), number] for key, number in format_parameters(one, specs).items()] for one in ours] == back


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "args"), [
    ("random_tuner.RandomTuner", {"seed": 3}), ("gridsearch_tuner.GridSearchTuner", {}),
    ("tpe_tuner.TpeTuner", {"optimize_mode": "minimize", "seed": 3, "tpe_args": {"n_startup_jobs": 5}})])
def test_a_tuner_that_nni_3_comes_with_runs_unchanged(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    """NNI's own, as a user's class, with the answers that it gives in NNI."""
    packages = next((official_python("3.0").parent.parent / "lib").glob("python*/site-packages"))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").touch()
    for module in ("random_tuner", "gridsearch_tuner", "tpe_tuner"):
        shutil.copy(packages / "nni" / "algorithms" / "hpo" / f"{module}.py", tmp_path / "theirs")
    for needed in ("schema.py", "schema"):
        if (packages / needed).is_dir():
            shutil.copytree(packages / needed, tmp_path / needed)
        elif (packages / needed).exists():
            shutil.copy(packages / needed, tmp_path)
    client = TunerClient()
    try:
        result(client.open("e", {"search_space": ONCE_NESTED, "tuner": own(tmp_path, f"theirs.{name}", **args),
                                 "assessor": None, "optimize_mode": "minimize", "seed": 5}, []))
        proposed = []
        for number in range(12):
            [parameters] = result(client.ask("e", number, 1))["parameters"]
            proposed.append(parameters)
            result(client.tell("e", number, parameters, parameters["rate"], "SUCCEEDED"))
    finally:
        client.shutdown()
    module, class_name = name.split(".")
    code = (f"import json, sys\nfrom nni.algorithms.hpo.{module} import {class_name} as Theirs\n"
            f"space, args = json.load(sys.stdin)\ntuner, proposed = Theirs(**args), []\n"
            "tuner.update_search_space(space)\nfor number in range(12):\n"
            "    proposed += tuner.generate_multiple_parameters([number])\n"
            "    tuner.receive_trial_result(number, proposed[-1], proposed[-1]['rate'])\n"
            "    tuner.trial_end(number, True)\nprint(json.dumps(proposed))\n")
    done = subprocess.run([str(official_python("3.0")), "-c", code], input=json.dumps([ONCE_NESTED, args]),
                          capture_output=True, text=True, timeout=120, check=True)
    assert proposed == json.loads(done.stdout.splitlines()[-1])  # what comes before is its log
