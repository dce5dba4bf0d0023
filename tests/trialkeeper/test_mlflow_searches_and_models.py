"""What a script may ask the MLflow server of its trial: runs that it searches for, and models that it registers."""

import json

import pytest

from trialkeeper.mlflow_calls import MlflowCalls


class Calls:
    """``said`` is the status of the last answer."""

    def __init__(self, folder) -> None:
        self._calls = MlflowCalls(str(folder))

    def __call__(self, name: str, /, **fields) -> dict:
        self.said, answer = self._calls.answer(f"/api/2.0/mlflow/{name}", json.dumps(fields).encode())
        return answer

    def runs(self, **fields) -> list[str]:
        return [run["info"]["run_name"] for run in self("runs/search", experiment_ids=["0"], **fields)["runs"]]


@pytest.fixture
def calls(tmp_path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def searched(calls) -> Calls:
    """Three runs, the last one nested in the first."""
    parent = ""
    for name, acc, layers in (("one", 0.5, "3"), ("two", 0.9, "10"), ("three", "NaN", "3")):
        tags = [{"key": "mlflow.parentRunId", "value": parent}] if name == "three" else []
        run = calls("runs/create", run_name=name, tags=tags)["run"]["info"]["run_id"]
        parent = parent or run
        calls("runs/log-batch", run_id=run, params=[{"key": "layers", "value": layers}], metrics=[
            {"key": "acc", "value": acc}, *([{"key": "a loss", "value": 2}] if name == "two" else [])])
    calls.parent = parent
    return calls


@pytest.mark.parametrize(("wanted", "found"), [
    ("", ["three", "two", "one"]), ("metrics.acc > 0.5", ["two"]),
    ("metrics.acc >= .5 AND params.layers = \"3\"", ["one"]), ("start_time > 0 and start_time < 5", []),
    ("metric.`a loss` = 2", ["two"]), ("params.layers != '3'", ["two"]), ("attributes.run_name LIKE 't%o'", ["two"]),
    ("run_name ilike 'T%' and param.layers IN ('1', '3')", ["three"]), ("status = 'RUNNING' and tags.x = '1'", []),
    ("params.layers NOT LIKE '%0'", ["three", "one"]), ("tags.`mlflow.parentRunId` IS NULL", ["two", "one"]),
    ("tags.\"mlflow.parentRunId\" is not null", ["three"]), ("run_name = 'a\\'b'", [])])
def test_a_filter_of_runs_is_obeyed(searched, wanted, found):
    assert searched.runs(filter=wanted) == found


def test_the_runs_below_a_run_are_found(searched):
    assert searched.runs(filter=f"tags.mlflow.parentRunId = '{searched.parent}'") == ["three"]


@pytest.mark.parametrize(("order", "found"), [
    (["metrics.`a loss`"], ["two", "three", "one"]), (["params.layers ASC", "run_name"], ["two", "one", "three"]),
    (["attributes.run_name DESC"], ["two", "three", "one"]), (["metrics.acc DESC"], ["two", "one", "three"])])
def test_runs_come_in_the_order_that_is_asked_for(searched, order, found):
    assert searched.runs(order_by=order) == found
    assert searched.runs(order_by=order, max_results=1) == found[:1]


@pytest.mark.parametrize("fields", [{"filter": "metrics.acc >"}, {"filter": "or or or"}, {"order_by": ["a b c"]},
                                    {"filter": "metrics.acc = 1 OR metrics.acc = 2"}, {"filter": "x" * 20_000},
                                    {"filter": "run_name IN (" + "'a' " * 2000}, {"filter": "metrics.acc IS NULL 3"},
                                    {"filter": "metrics.acc > 'much'"}])
def test_a_filter_that_is_not_understood_is_refused_and_not_left_out(searched, fields):
    answer = searched("runs/search", experiment_ids=["0"], **fields)
    assert (searched.said, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


def test_a_model_that_a_script_registers_has_versions(calls):
    assert calls("registered-models/create", name="wine")["registered_model"]["name"] == "wine"
    assert calls("registered-models/create", name="wine")["error_code"] == "RESOURCE_ALREADY_EXISTS"
    first = calls("model-versions/create", name="wine", source="/a", run_id="r")["model_version"]
    assert (first["version"], first["status"], first["current_stage"]) == ("1", "READY", "None")
    calls("model-versions/create", name="wine", source="/b", run_id="q")
    assert calls("model-versions/get", name="wine", version="2")["model_version"]["source"] == "/b"
    assert calls("model-versions/get-download-uri", name="wine", version=1)["artifact_uri"] == "/a"
    assert [one["version"] for one in calls("model-versions/search", filter="name = 'wine'")["model_versions"]] == [
        "2", "1"]
    assert [one["version"] for one in calls("model-versions/search", filter="run_id = 'r'")["model_versions"]] == ["1"]
    assert calls("model-versions/search", filter="name = 'beer'")["model_versions"] == []
    [listed] = calls("registered-models/search")["registered_models"]
    assert [version["version"] for version in listed["latest_versions"]] == ["2"]


def test_versions_have_stages_aliases_and_tags(calls):
    calls("registered-models/create", name="wine")
    calls("model-versions/create", name="wine", source="/a")
    calls("model-versions/transition-stage", name="wine", version="1", stage="Production")
    assert [one["version"] for one in calls(
        "registered-models/get-latest-versions", name="wine", stages=["Production"])["model_versions"]] == ["1"]
    calls("registered-models/alias", name="wine", alias="champion", version="1")
    assert calls("registered-models/alias", name="wine", alias="champion")["model_version"]["version"] == "1"
    assert calls("registered-models/alias", name="wine", alias="other")["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    for value in ("1", "2"):
        calls("model-versions/set-tag", name="wine", version="1", key="k", value=value)
        calls("registered-models/set-tag", name="wine", key="k", value=value)
    calls("model-versions/update", name="wine", version="1", description="good")
    calls("registered-models/update", name="wine", description="wines")
    version = calls("model-versions/get", name="wine", version="1")["model_version"]
    assert (version["tags"], version["description"]) == ([{"key": "k", "value": "2"}], "good")
    model = calls("registered-models/get", name="wine")["registered_model"]
    assert (model["tags"], model["description"]) == ([{"key": "k", "value": "2"}], "wines")
    assert model["aliases"] == [{"alias": "champion", "version": "1"}]


def test_models_that_a_script_has_logged_are_found(calls):
    for name in ("one", "two"):
        calls("logged-models", name=name, experiment_id="0", source_run_id=f"run of {name}")
    def found(**fields):
        models = calls("logged-models/search", experiment_ids=["0"], **fields)["models"]
        return [model["info"]["name"] for model in models]
    assert (found(), found(max_results=1), found(filter="name = 'one'")) == (["two", "one"], ["two"], ["one"])
    assert found(filter="source_run_id = 'run of two'") == ["two"]
    assert calls("logged-models/search", experiment_ids=["7"])["models"] == []


@pytest.mark.parametrize("name", ["registered-models/get", "model-versions/create", "model-versions/get"])
def test_a_model_that_is_not_there_is_said_to_be_missing(calls, name):
    assert calls(name, name="wine", version="1", source="/a")["error_code"] == "RESOURCE_DOES_NOT_EXIST"
