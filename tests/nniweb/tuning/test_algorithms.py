"""Names, class arguments and directions, as the web process validates them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nniweb.tuning.algorithms import (
    Algorithm,
    build_assessor,
    build_tuner,
    check_class_args,
    check_types,
    find_assessor,
    find_tuner,
    resolve_optimize_mode,
)
from nniweb.tuning.class_args import GridSearchArgs, TpeArgs, TpeOptions
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput
from tests.nniweb.tuning.search_space.test_search_space import NESTED


@pytest.mark.parametrize(
    ("name", "found"), [("TPE", "TPE"), ("tpe", "TPE"), ("gridsearch", "GridSearch"), ("RANDOM", "Random")]
)
def test_a_tuner_is_found_in_any_spelling_of_case(name: str, found: str) -> None:
    assert find_tuner(name).name == found


def test_an_unknown_name_is_answered_with_the_nearest_and_with_all() -> None:
    with pytest.raises(InvalidInput, match=r'Did you mean "Random"\? Available: Auto, TPE, NSGAII, Random'):
        find_tuner("Randm")
    with pytest.raises(InvalidInput, match="no assessor named"):
        find_assessor("Meanstop9000")


@pytest.mark.parametrize("name", ["PPO", "PPOTuner", "networkmorphism", "RegularizedEvolutionTuner"])
def test_an_nni_algorithm_that_is_not_here_is_said_to_be_so_and_why(name: str) -> None:
    with pytest.raises(InvalidInput, match=f'"{name}" is not available: it searches network architectures'):
        find_tuner(name)


@pytest.mark.parametrize("name", ["GP", "SMAC", "Metis", "DNGO"])
def test_a_tuner_whose_packages_are_not_installed_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InvalidInput, match=r"needs packages .*\(sklearn\).*'nniweb.tuners.'.*requirements/tuners.txt"):
        find_tuner(name)


def test_nnis_own_names_and_aliases_of_all_tuners_are_known() -> None:
    names = ["TPE", "Random", "GridSearch", "Anneal", "Evolution", "Batch", "BatchTuner", "SMAC", "GP", "GPTuner",
             "Metis", "MetisTuner", "Hyperband", "BOHB", "PBT", "PBTTuner", "DNGO", "DNGOTuner"]  # fmt: skip
    for name in names:
        assert find_tuner(name.lower()) is find_tuner(name)


@pytest.mark.parametrize(
    ("tuner", "args", "path", "words"),
    [
        ("TPE", {"optimise_mode": "minimize"}, "classArgs.optimise_mode", 'Did you mean "optimize_mode"?'),
        ("TPE", {"optimize_mode": "max"}, "classArgs.optimize_mode", 'must be minimize or maximize, not "max"'),
        ("TPE", {"tpe_args": {"gama": 1}}, "classArgs.tpe_args.gama", 'Did you mean "gamma"?'),
        ("TPE", {"tpe_args": {"n_startup_jobs": -1}}, "classArgs.tpe_args.n_startup_jobs", "not -1"),
        ("Random", {"seed": "1"}, "classArgs.seed", "must be a whole number"),
        ("Random", {"seed": -1}, "classArgs.seed", "must be at least 0, not -1"),
        ("Random", {"seed": 2**63}, "classArgs.seed", f"must be at most {2**63 - 1}, not {2**63}"),
        ("GridSearch", {"seed": 1}, "classArgs.seed", "no such argument"),
    ],
)
def test_a_wrong_class_argument_is_named(tuner: str, args: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_class_args(find_tuner(tuner), args)
    [problem] = caught.value.problems
    assert problem.path == path
    assert words in problem.message


def test_both_forms_of_tpe_arguments_come_to_one_set_of_options() -> None:
    assert TpeArgs().options("minimize") == TpeOptions()
    assert TpeOptions().constant_liar_type == "running"
    assert TpeArgs.model_validate({"tpe_args": {"constant_liar_type": "Mean"}}).options(
        "minimize").constant_liar_type == "mean"  # fmt: skip
    assert TpeArgs(parallel_optimize=False).options("minimize").constant_liar_type is None
    assert TpeArgs(parallel_optimize=True).options("minimize").constant_liar_type == "best"
    assert TpeArgs(parallel_optimize=True).options("maximize").constant_liar_type == "worst"
    assert TpeArgs(parallel_optimize=True, constant_liar_type="max").options("maximize").constant_liar_type == "best"


@pytest.mark.parametrize(
    ("tuner", "tuner_args", "assessor", "assessor_args", "mode"),
    [
        ("TPE", None, None, None, "minimize"),
        ("TPE", {"optimize_mode": "maximize"}, None, None, "maximize"),
        ("TPE", {"optimize_mode": "minimize"}, "Medianstop", {"optimize_mode": "maximize"}, "minimize"),
        ("Random", {}, None, None, "maximize"),
        ("Random", {"optimize_mode": "minimize"}, None, None, "minimize"),
        ("Random", None, "medianstop", {"optimize_mode": "minimize"}, "minimize"),
        ("GridSearch", None, "Medianstop", None, "maximize"),
    ],
)
def test_an_experiment_has_one_direction(
    tuner: str, tuner_args: Any, assessor: str | None, assessor_args: Any, mode: str
) -> None:
    assert resolve_optimize_mode(tuner, tuner_args, assessor, assessor_args) == mode


def test_an_assessor_follows_the_experiment_unless_it_says_otherwise() -> None:
    def stops_a_low_trial(args: dict[str, Any]) -> bool:
        assessor = build_assessor("Medianstop", args, "minimize")
        assessor.trial_end("done", [5.0], True)
        return assessor.should_stop("low", [1.0])

    assert not stops_a_low_trial({})
    assert stops_a_low_trial({"optimize_mode": "maximize"})


def test_types_that_an_algorithm_does_not_take_are_named() -> None:
    flat_only = Algorithm("Flat", "none", GridSearchArgs, None, types=frozenset({"choice", "uniform"}), nests=False)
    problems = {problem.path: problem.message for problem in check_types(flat_only, parse_search_space(NESTED))}
    assert problems["lr"] == "Flat cannot search the type loguniform; it takes choice, uniform"
    assert problems["layer"] == "Flat cannot search nested choices"
    assert "randint" in problems["layer._value[2].size"]
    assert check_types(find_tuner("TPE"), parse_search_space(NESTED)) == []


def test_the_seed_of_the_class_arguments_goes_before_the_experiments() -> None:
    space = parse_search_space(NESTED)

    def first(args: dict[str, Any], seed: int) -> Any:
        return build_tuner("Random", args, space, "minimize", seed).ask(0)

    assert first({"seed": 4}, 1) == first({"seed": 4}, 2) == first({}, 4)
    assert first({}, 1) != first({}, 2)


def test_validating_loads_neither_optuna_nor_numpy() -> None:
    program = (
        "import sys, nniweb.tuning.algorithms as a;"
        "from nniweb.tuning.search_space.parser import parse_search_space as p;"
        "a.resolve_optimize_mode('TPE', {'seed': 1});"
        "p({'x': {'_type': 'uniform', '_value': [0, 1]}}).contains({'x': 0.5});"
        "print(sorted({'optuna', 'numpy', 'django'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
