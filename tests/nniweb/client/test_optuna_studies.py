"""Search spaces and trials in Optuna's words. With a server they are in tests/end_to_end/test_optuna.py."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna
import pytest
from optuna.trial import TrialState

from nniweb.client.errors import Conflict, FieldError, Refused
from nniweb.client.optuna import run_study, study_of
from nniweb.client.optuna.script_search import _search_space
from nniweb.client.optuna.study_space import StudySpace
from nniweb.tuning.search_space.parser import parse_search_space
from trialkeeper.nni.optuna import chosen

SPACE: dict[str, Any] = {
    "lr": {"_type": "loguniform", "_value": [0.0001, 0.1]}, "x": {"_type": "uniform", "_value": [-5, 5]},
    "step": {"_type": "quniform", "_value": [0.05, 1, 0.1]}, "small": {"_type": "quniform", "_value": [1.1, 1.9, 5]},
    "batch": {"_type": "qloguniform", "_value": [8, 200, 8]}, "layers": {"_type": "randint", "_value": [1, 5]},
    "kind": {"_type": "choice", "_value": ["a", 1, True, None]},
    "sizes": {"_type": "choice", "_value": [[1, 2], {"a": 3}, 4]},
    "optimizer": {"_type": "choice", "_value": [
        {"_name": "sgd", "momentum": {"_type": "uniform", "_value": [0, 1]}}, {"_name": "adam"}]},
}


def test_what_a_study_chooses_is_a_point_of_the_search_space_and_is_found_again_from_the_study() -> None:
    space, ours = StudySpace(SPACE), parse_search_space(SPACE)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    kinds, sizes = set(), set()
    for _ in range(50):
        trial = study.ask()
        parameters = space.suggest(trial)
        assert ours.problems_with(parameters) == []
        assert space.proposed(trial.params) == parameters
        again = {name: value for name, (value, _) in space.of_trial(parameters).items()}
        rounded = {"batch", "small"}  # Optuna has no steps of a logarithm, and none where no multiple is in the range
        assert {**again, **dict.fromkeys(rounded)} == pytest.approx({**trial.params, **dict.fromkeys(rounded)})
        assert ("optimizer/sgd/momentum" in trial.params) == (trial.params["optimizer"] == "sgd")
        assert parameters["batch"] % 8 == 0
        kinds.add(json.dumps(parameters["kind"]))
        sizes.add(json.dumps(parameters["sizes"]))
    assert (kinds, sizes) == ({'"a"', "1", "true", "null"}, {"[1, 2]", '{"a": 3}', "4"})
    assert space.proposed({"lr": 0.01}) is None, "the process ended before the others were chosen"


def test_options_of_a_script_that_json_does_not_have_are_sent_as_text_and_found_again_by_the_trial() -> None:
    choices = [1.0, math.inf, -math.inf, math.nan]
    distribution = optuna.distributions.CategoricalDistribution(choices)
    [_, sent] = _search_space({"clip": distribution}).values()
    parse_search_space({"clip": sent})
    assert [chosen({"clip": value}, "clip", distribution) for value in sent["_value"]] == pytest.approx(
        choices, nan_ok=True)


def test_types_that_optuna_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match=r"no normal distribution, which a, c/b/n has\. Write a uniform"):
        StudySpace({"a": {"_type": "normal", "_value": [0, 1]}, "c": {"_type": "choice", "_value": [
            {"_name": "b", "n": {"_type": "qlognormal", "_value": [0, 1, 2]}}]}}).must_be_sampled()


class Finished:
    """What ``study_of`` asks of an experiment, as the server answers. ``rows``: of trials, without what is the same."""

    id, name, url = "abc", "digits", "http://127.0.0.1/experiments/abc/"

    def __init__(self, rows: list[dict[str, Any]], objectives: list[dict[str, str]] | None = None) -> None:
        self.document = {"search_space": {**SPACE, "n": {"_type": "lognormal", "_value": [0, 1]}},
                         "objectives": objectives or [], "optimize_mode": "maximize"}
        self.rows = rows

    def refresh(self) -> Finished:
        return self

    def export(self, *, intermediate: bool) -> Iterator[bytes]:
        assert intermediate
        rows = [{"id": f"t{number}", "sequence_id": number, "parameters": {"x": float(number)}, "final_number": None,
                 "metrics": {}, "intermediate": [], "started_at": "2026-01-02T03:04:05Z",
                 "ended_at": "2026-01-02T03:05:05Z", **row} for number, row in enumerate(self.rows)]
        yield json.dumps({"trials": rows}).encode()


ROWS: list[dict[str, Any]] = [
    {"status": "SUCCEEDED", "final_number": 0.5, "intermediate": ["0.1", '{"default": 0.4}', '"text"'],
     "parameters": {"x": 70.5, "n": 2.5, "layers": 9, "sizes": [1, 2], "kind": True, "gone": 3, "lr": 0.01,
                    "optimizer": {"_name": "sgd", "momentum": 0.25}}},
    {"status": "EARLY_STOPPED", "intermediate": ["0.2", "0.3"]},
    {"status": "FAILED", "intermediate": ["0.2"]},
    {"status": "RUNNING", "ended_at": None, "intermediate": ["0.7"]},
    {"status": "WAITING", "ended_at": None, "started_at": None},
    {"status": "SUCCEEDED"},
]


def test_states_values_and_parameters_outside_of_the_present_search_space_are_those_of_the_trials() -> None:
    study = study_of(Finished(ROWS))  # type: ignore[arg-type]
    trials = study.trials
    assert (study.study_name, study.direction.name) == ("digits (abc)", "MAXIMIZE")
    assert [(trial.state.name, trial.value) for trial in trials] == [
        ("COMPLETE", 0.5), ("PRUNED", 0.3), ("FAIL", None), ("RUNNING", None), ("FAIL", None)]
    assert trials[0].params == {"x": 70.5, "n": 2.5, "layers": 9, "sizes": "[1, 2]", "kind": "true", "lr": 0.01,
                                "optimizer": "sgd", "optimizer/sgd/momentum": 0.25}
    assert trials[0].distributions["x"] == optuna.distributions.FloatDistribution(-5, 70.5)
    assert trials[0].distributions["n"] == optuna.distributions.FloatDistribution(1, 2.5, log=True)
    assert [trial.intermediate_values for trial in trials] == [{0: 0.1, 1: 0.4}, {0: 0.2, 1: 0.3}, {0: 0.2}, {0: 0.7},
                                                              {}]
    assert trials[0].user_attrs == {"trial": "t0", "sequence_id": 0, "status": "SUCCEEDED"}
    assert trials[0].duration is not None
    assert trials[0].duration.total_seconds() == 60
    table = study.trials_dataframe()
    assert list(table["params_x"])[:2] == [70.5, 1.0]
    assert math.isnan(table["value"][2])


def test_a_reported_number_that_is_too_large_is_left_out() -> None:
    rows = [{"status": "SUCCEEDED", "final_number": 0.5, "intermediate": [f"1{'0' * 400}", "0.5"]}]
    [trial] = study_of(Finished(rows)).trials  # type: ignore[arg-type]
    assert (trial.value, trial.intermediate_values) == (0.5, {1: 0.5})


def test_a_second_look_adds_new_trials_and_the_ends_of_running_ones() -> None:
    storage = optuna.storages.InMemoryStorage()
    study_of(Finished(ROWS), storage)  # type: ignore[arg-type]
    later = [dict(row) for row in ROWS]
    later[3] = {"status": "SUCCEEDED", "intermediate": ["0.7", "0.8"], "final_number": 0.9}
    later[4] = {"status": "RUNNING", "ended_at": None}
    study = study_of(Finished(later), storage)  # type: ignore[arg-type]
    assert [trial.user_attrs["sequence_id"] for trial in study.trials] == [0, 1, 2, 3, 5, 4]
    brought = study.trials[3]
    assert (brought.state, brought.value, brought.intermediate_values) == (TrialState.COMPLETE, 0.9, {0: 0.7, 1: 0.8})
    assert brought.user_attrs["status"] == "SUCCEEDED"


def test_several_objectives_are_several_values_and_a_trial_without_one_of_them_fails() -> None:
    objectives = [{"metric": "accuracy", "optimize_mode": "maximize"}, {"metric": "ms", "optimize_mode": "minimize"}]
    rows = [{"status": "SUCCEEDED", "final_number": 0.5, "metrics": {"ms": 3}, "intermediate": ["0.1"]},
            {"status": "SUCCEEDED", "final_number": 0.5, "metrics": {"ms": None}}]
    study = study_of(Finished(rows, objectives))  # type: ignore[arg-type]
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert [(trial.state.name, trial.values) for trial in study.trials] == [("COMPLETE", [0.5, 3.0]), ("FAIL", None)]


def test_a_study_that_searches_for_something_else_is_refused() -> None:
    optuna.create_study(storage=(storage := optuna.storages.InMemoryStorage()), study_name="taken")
    with pytest.raises(ValueError, match="The study taken has other directions. Give it another name"):
        study_of(Finished([]), storage, study_name="taken")  # type: ignore[arg-type]
    experiment = Finished([])
    del experiment.document["search_space"]["n"]
    with pytest.raises(ValueError, match="The study's directions are minimize, and the experiment's maximize"):
        run_study(optuna.create_study(), experiment)  # type: ignore[arg-type]


class Refusing(Finished):
    """An experiment that runs, and refuses what is proposed."""

    def __init__(self, error: Refused) -> None:
        super().__init__([])
        self.document = {**self.document, "search_space": {"x": SPACE["x"]}, "optimize_mode": "minimize"}
        self.has_ended, self.error = False, error

    def wanted(self) -> int:
        return 60

    def propose(self, *proposals: Any, keys: list[str]) -> None:
        if isinstance(self.error, Conflict):
            self.has_ended = True
        raise self.error

    def results(self, after: int, **_: float) -> tuple[list[dict[str, Any]], int]:
        return [], after


def test_points_that_constraints_forbid_fail_in_the_study_and_many_in_a_row_end_the_program() -> None:
    study = optuna.create_study()
    forbidden = Refused(400, [FieldError("proposals[0].parameters", "x must be less than y.")])
    with pytest.raises(Refused, match="x must be less than y"):
        run_study(study, Refusing(forbidden))  # type: ignore[arg-type]
    assert [trial.state for trial in study.trials] == [TrialState.FAIL] * 100


@pytest.mark.parametrize("asked_before", [1, 0])
def test_a_token_that_may_not_propose_ends_the_program_and_fails_no_trial_of_the_study(asked_before: int) -> None:
    study = optuna.create_study()
    for _ in range(asked_before):  # an earlier run has proposed it, and it runs
        StudySpace({"x": SPACE["x"]}).suggest(study.ask())
    with pytest.raises(Refused, match="needs the role propose"):
        run_study(study, Refusing(  # type: ignore[arg-type]
            Refused(403, [FieldError("", "This needs the role propose.")])))
    assert [trial.state for trial in study.trials] == [TrialState.RUNNING]


def test_at_the_limit_of_the_experiment_no_more_is_asked_for() -> None:
    study = optuna.create_study()
    run_study(study, Refusing(Conflict(409, [FieldError("", "It has its 20 trials.")])))  # type: ignore[arg-type]
    assert [trial.state for trial in study.trials] == [TrialState.FAIL]


@pytest.mark.slow
def test_optuna_dashboard_reads_it() -> None:
    if importlib.util.find_spec("optuna_dashboard") is None:
        pytest.skip("optuna-dashboard is not installed, and studies are tried with it")
    from optuna_dashboard import wsgi
    storage = optuna.storages.InMemoryStorage()
    study_of(Finished(ROWS), storage)  # type: ignore[arg-type]

    def get(path: str) -> Any:
        answered: list[str] = []
        environment = {"PATH_INFO": path}
        setup_testing_defaults(environment)
        body = wsgi(storage)(environment, lambda status, headers, *error: answered.append(status))
        assert answered == ["200 OK"]
        return json.loads(b"".join(body))

    [summary] = get("/api/studies")["study_summaries"]
    assert summary["study_name"] == "digits (abc)"
    trials = get(f"/api/studies/{summary['study_id']}")["trials"]
    assert [trial["state"] for trial in trials] == ["Complete", "Pruned", "Fail", "Running", "Fail"]
    assert trials[0]["values"] == [0.5]
