"""The section metrics."""

from __future__ import annotations

import pytest

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document

VALUE = r"acc=(?P<value>\S+)"


def read(v2, folder, **metrics):
    return parse_experiment_config({**v2, "metrics": metrics}, folder)


@pytest.mark.parametrize(("written", "result"), [
    ({"stdout": VALUE}, "value"), ({"stderr": r"(?P<step>\d+) acc=(?P<acc>\S+)"}, "acc"),
    ({"stdout": r"(?P<name>\w+): (?P<value>\S+)", "result": "acc", "final": "best"}, "acc"),
    ({"stdout": r"(?P<loss>\S+) (?P<value>\S+)", "final": "at exit"}, "value"),
    ({"stdout": "json", "result": "acc"}, "acc"), ({"files": ["**/metrics.csv"], "result": "acc"}, "acc"),
    ({"mlflow": True, "result": "acc"}, "acc"),
    ({"stdout": r"(?P<loss>\S+) (?P<acc>\S+)", "result": "loss"}, "loss")])
def test_the_result_is_named_or_follows_from_the_patterns(v2, folder, written, result):
    settings = read(v2, folder, **written).settings
    assert settings.metrics == {**written, "result": result}
    again = parse_experiment_config(resolved_document(settings), folder).settings
    assert again.metrics == settings.metrics


def test_one_tag_of_tensorboard_is_the_result_and_of_several_it_is_named(v2, folder, errors_of):
    assert read(v2, folder, tensorboard="val/acc").settings.metrics == {"tensorboard": ["val/acc"], "result": "val/acc"}
    assert read(v2, folder, tensorboard=["a", "b"], result="b").settings.metrics["result"] == "b"
    [error] = errors_of({**v2, "metrics": {"tensorboard": ["acc", "loss"], "result": "los"}})
    assert "did you mean loss?" in error.message


def test_the_main_objective_is_the_result_where_it_can_be_found(v2, folder):
    del v2["tuner"]["classArgs"]["optimize_mode"]
    v2 |= {"assessor": None, "objectives": [{"metric": "acc", "optimizeMode": "maximize"},
                                            {"metric": "loss", "optimizeMode": "minimize"}]}
    assert read(v2, folder, mlflow=True).settings.metrics["result"] == "acc"
    assert read(v2, folder, stdout=r"(?P<loss>\S+) (?P<acc>\S+)").settings.metrics["result"] == "acc"
    assert read(v2, folder, stdout=r"(?P<loss>\S+) (?P<value>\S+)").settings.metrics["result"] == "value"


def test_the_output_folder_may_be_named_in_patterns_of_files(v2, folder):
    settings = read(v2, folder, files=["$NNI_OUTPUT_DIR/*.csv"], result="acc").settings
    assert settings.metrics["files"] == ["*.csv"]


def test_without_the_section_trials_report_their_metrics(v2, folder):
    settings = parse_experiment_config(v2, folder).settings
    assert settings.metrics == {}
    assert "metrics" not in resolved_document(settings)


@pytest.mark.parametrize(("written", "field", "words"), [
    ({}, "metrics", "names no place"), ({"result": "acc"}, "metrics", "names no place"),
    ({"stdout": "acc="}, "metrics.stdout", "has no group for a metric"),
    ({"stdout": r"(?P<step>\d+)"}, "metrics.stdout", "has no group for a metric"),
    ({"stdout": r"(?P<name>\w+)=(?P<x>\d)"}, "metrics.stdout", "no group value"),
    ({"stderr": "(?P<value>"}, "metrics.stderr", "not a regular expression"),
    ({"stdout": r"(?P<value>\d)(?=x)"}, "metrics.stdout", "Lookarounds"),
    ({"stdout": r"(?P<value>\d)\1"}, "metrics.stdout", "Lookarounds"),
    ({"stdout": r"(?P<value>\d)" + "x" * 1000}, "metrics.stdout", "longer than 1000"),
    ({"stdout": "json"}, "metrics.result", "is required"),
    ({"stdout": r"(?P<loss>\S+) (?P<acc>\S+)"}, "metrics.result", "is required"),
    ({"stdout": r"(?P<loss>\S+) (?P<acc>\S+)", "result": "ac"}, "metrics.result", "did you mean acc?"),
    ({"stdout": VALUE, "final": "first"}, "metrics.final", "last"),
    ({"files": ["*.csv"]}, "metrics.result", "is required"),
    ({"mlflow": True}, "metrics.result", "is required"), ({"mlflow": False}, "metrics", "names no place"),
    ({"files": ["/tmp/*.csv"], "result": "a"}, "metrics.files[0]", "leaves the trial's output folder"),
    ({"files": ["a/../../b"], "result": "a"}, "metrics.files[0]", "leaves the trial's output folder"),
    ({"stdout": 1}, "metrics.stdout", "text"), ({"pattern": VALUE}, "metrics.pattern", "")])
def test_what_is_wrong_names_its_field(v2, errors_of, written, field, words):
    errors = errors_of({**v2, "metrics": written})
    assert [error.field for error in errors] == [field]
    assert words in errors[0].message


def test_it_is_not_for_trials_with_several_parameter_sets(v2, errors_of):
    [error] = errors_of({**v2, "multiPhase": True, "metrics": {"stdout": VALUE}})
    assert "multiPhase" in error.message
