"""replicates in files: what it comes to, and what it does not go together with."""

from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.models import Experiment
from nniweb.experiments.results.replicates import replicates_of_each, seed_of, stored_replicates

HYPERBAND = {"name": "Hyperband", "classArgs": {"R": 4, "eta": 2}}


def parsed(folder: Path, **fields: Any) -> Any:
    return parse_experiment_config({
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "true", "trialConcurrency": 1,
        "tuner": {"name": "TPE"}, "trainingService": {"platform": "local"}, **fields}, folder).settings


def refused(folder: Path, **fields: Any) -> dict[str, str]:
    with pytest.raises(ConfigInvalid) as invalid:
        parsed(folder, **fields)
    return {error.field: error.message for error in invalid.value.errors}


@pytest.mark.parametrize(("written", "meant"), [
    (3, {"n": 3}), ({"n": 3}, {"n": 3}), ({"seeds": [1, 2]}, {"n": 2, "seeds": [1, 2]}),
    ({"n": 2, "seeds": [5, 6], "racing": False}, {"n": 2, "seeds": [5, 6], "racing": False}), (None, {})])
def test_each_form_comes_to_the_same(tmp_path: Path, written: Any, meant: dict[str, Any]) -> None:
    settings = parsed(tmp_path, replicates=written)
    assert settings.replicates == meant
    assert parse_experiment_config(resolved_document(settings)).settings == settings


def test_fewer_trials_than_replicates_of_one_proposal_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, replicates=3, maxTrialNumber=2) == {
        "replicates": "maxTrialNumber is 2, so not even one proposal gets its 3 trials. Set maxTrialNumber to 3 or "
                      "more, or use fewer replicates"}
    assert parsed(tmp_path, replicates=3, maxTrialNumber=3).max_trial_number == 3
    assert parsed(tmp_path, replicates=1, maxTrialNumber=1).max_trial_number == 1


def test_one_replicate_is_none(tmp_path: Path) -> None:
    assert stored_replicates(parsed(tmp_path, replicates=1).replicates) == {}
    assert parsed(tmp_path, replicates=1, tuner=HYPERBAND).replicates == {"n": 1}


def test_seeds_follow_from_the_experiments_seed_unless_they_are_given() -> None:
    derived = Experiment(seed=7, replicates={"n": 3})
    seeds = [seed_of(derived, replicate) for replicate in range(3)]
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2 ** 31 for seed in seeds)
    assert seeds == [seed_of(Experiment(seed=7, replicates={"n": 9}), replicate) for replicate in range(3)]
    assert seeds != [seed_of(Experiment(seed=8, replicates={"n": 3}), replicate) for replicate in range(3)]
    given = Experiment(seed=7, replicates={"n": 2, "seeds": [4, 5]})
    assert [seed_of(given, replicate) for replicate in range(replicates_of_each(given))] == [4, 5]


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    assert "one seed for each of the 3 replicates, not 2" in refused(
        tmp_path, replicates={"n": 3, "seeds": [1, 2]})["replicates.seeds"]
    assert "same seed twice" in refused(tmp_path, replicates={"seeds": [1, 1]})["replicates.seeds"]
    assert "is required" in refused(tmp_path, replicates={"racing": True})["replicates.n"]
    assert "replicates.n" in refused(tmp_path, replicates={"n": 0})
    objectives = [{"metric": name, "optimizeMode": "minimize"} for name in ("a", "b")]
    assert "several objectives" in refused(tmp_path, replicates=2, objectives=objectives)["replicates"]
    assert "multiPhase" in refused(tmp_path, replicates=2, multiPhase=True)["replicates"]
    limited = {"outcomeConstraints": ["size < 3"]}
    assert "excludes outcomeConstraints" in refused(tmp_path, replicates=2, **limited)["replicates"]
    assert parsed(tmp_path, replicates=1, **limited).outcome_constraints == ("size < 3",)
    assert parsed(tmp_path, replicates=2, constraints=["x < 0.5"]).constraints == ("x < 0.5",)
    assert parsed(tmp_path, replicates=2, objectives=objectives[:1]).replicates == {"n": 2}


@pytest.mark.parametrize("tuner", [
    HYPERBAND, {"name": "BOHB", "classArgs": {"min_budget": 1, "max_budget": 4}}, {"name": "PBT"}],
    ids=lambda tuner: tuner["name"])
def test_tuners_that_run_trials_for_different_times_are_refused(tmp_path: Path, tuner: dict[str, Any]) -> None:
    assert "cannot be used with replicates" in refused(tmp_path, replicates=2, tuner=tuner)["tuner.name"]
