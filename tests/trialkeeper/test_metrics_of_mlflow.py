"""The MLflow tracking server that a keeper gives its trial, and what becomes of what is logged to it."""

import contextlib
import importlib.metadata
import json
import math
import os
import socket
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.fakes.real_mlflow import VERSIONS, mlflow_python
from tests.trialkeeper.keeper_run import wait_until
from trialkeeper import mlflow_calls, mlflow_stores
from trialkeeper.mlflow_calls import CALLS_FILE, MlflowCalls, MlflowMetrics
from trialkeeper.mlflow_endpoint import (
    MOST_BODY,
    MOST_CONNECTIONS,
    MOST_HEAD,
    TOKEN_VARIABLE,
    MlflowEndpoint,
)
from trialkeeper.trial_environment import MLFLOW_URI, trial_environment


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory) -> MlflowEndpoint:
    endpoint = MlflowEndpoint(str(tmp_path_factory.mktemp("output")))
    threading.Thread(target=endpoint.serve, daemon=True).start()
    return endpoint


class Client:
    def __init__(self, endpoint: MlflowEndpoint) -> None:
        variables = endpoint.variables()
        self.url, self.session = variables[MLFLOW_URI], requests.Session()
        self.token = variables[TOKEN_VARIABLE]
        self.session.headers["Authorization"] = f"Bearer {self.token}"

    def call(self, name: str, /, **fields) -> dict:
        answer = self.session.post(f"{self.url}/api/2.0/mlflow/{name}", json=fields, timeout=30)
        return {"status": answer.status_code, **answer.json()}

    def get(self, name: str, /, **fields) -> dict:
        answer = self.session.get(f"{self.url}/api/2.0/mlflow/{name}", params=fields, timeout=30)
        return {"status": answer.status_code, **answer.json()}

    def run(self, **fields) -> str:
        return self.call("runs/create", experiment_id="0", **fields)["run"]["info"]["run_id"]

    def raw(self, data: bytes) -> bytes:
        """What comes until the server ends the connection."""
        with socket.create_connection(("127.0.0.1", int(self.url.rpartition(":")[2])), timeout=30) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: connection.recv(65536), b""))
            except OSError:  # the server has ended the connection without reading the rest
                return b""


@pytest.fixture
def client(endpoint) -> Iterator[Client]:
    client = Client(endpoint)
    yield client
    client.session.close()


# --- the server ---------------------------------------------------------------------------------


def test_only_who_has_the_token_is_answered(client):
    address = f"{client.url}/api/2.0/mlflow/experiments/get?experiment_id=0"
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
        answer = requests.get(address, headers=header, timeout=30)
        assert answer.status_code == 401
        assert answer.json()["error_code"] == "UNAUTHENTICATED"
    assert client.get("experiments/get", experiment_id="0")["experiment"]["name"] == "Default"


def test_requests_may_come_in_pieces_and_several_at_once(client):
    def request(body):
        return ("POST /api/2.0/mlflow/experiments/search HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {client.token}\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()
    with socket.create_connection(("127.0.0.1", int(client.url.rpartition(":")[2])), timeout=30) as connection:
        for byte in request("{}"):
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
    assert client.raw(request("{}") * 3).count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize(("head", "status"), [
    (b"nonsense", 400), (b"GET / HTTP/1.1\r\nContent-Length: %d" % (MOST_BODY + 1), 413),
    (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked", 411), (b"POST / HTTP/1.1\r\nContent-Length: -1", 400),
    (b"POST / HTTP/1.1\r\nContent-Length: 0x2", 400), (b"POST / HTTP/1.1\r\ncontent-length:", 400),
    (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 30", 400),
    (b"GET / HTTP/1.1\r\nX: " + b"x" * 2 * MOST_HEAD, 431)])
def test_what_is_no_bounded_request_ends_the_connection(client, head, status):
    said = client.raw(head + f"\r\nAuthorization: Bearer {client.token}\r\n\r\n".encode())
    assert not said or said.split()[1] == str(status).encode()
    assert client.get("experiments/get", experiment_id="0")["status"] == 200


def test_a_client_that_asks_first_may_send_its_body(client):
    head = (f"POST /api/2.0/mlflow/experiments/search HTTP/1.1\r\nAuthorization: Bearer {client.token}\r\n"
            "Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", int(client.url.rpartition(":")[2])), timeout=30) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(b"{}")
        assert b"HTTP/1.1 200" in b"".join(iter(lambda: connection.recv(65536), b""))


def test_connections_that_say_nothing_keep_nobody_out(client):
    run = client.run()  # on a connection that stays open
    with contextlib.ExitStack() as silent:
        for _ in range(3 * MOST_CONNECTIONS):
            silent.enter_context(socket.create_connection(("127.0.0.1", int(client.url.rpartition(":")[2])), 30))
        assert client.call("runs/log-metric", run_id=run, key="loss", value=1)["status"] == 200
        with requests.Session() as another:
            another.headers["Authorization"] = f"Bearer {client.token}"
            answer = another.get(f"{client.url}/api/2.0/mlflow/runs/get", params={"run_id": run}, timeout=30)
        assert [metric["key"] for metric in answer.json()["run"]["data"]["metrics"]] == ["loss"]


def test_idle_connections_of_the_trial_itself_give_way_to_new_ones(client):
    with contextlib.ExitStack() as idle:
        for _ in range(MOST_CONNECTIONS + 20):
            session = idle.enter_context(requests.Session())
            session.headers["Authorization"] = f"Bearer {client.token}"
            answer = session.get(f"{client.url}/api/2.0/mlflow/experiments/get?experiment_id=0", timeout=30)
            assert answer.status_code == 200


# --- the calls ----------------------------------------------------------------------------------


def test_what_is_logged_is_there_when_it_is_asked_for(client):
    run = client.run(run_name="mine", tags=[{"key": "a", "value": "1"}])
    assert client.call("runs/log-metric", run_id=run, key="acc", value=0.5, step=3, timestamp=9)["status"] == 200
    assert client.call("runs/log-batch", run_id=run, metrics=[{"key": "loss", "value": "NaN", "step": 4}],
                       params=[{"key": "p", "value": "x"}], tags=[{"key": "b", "value": "2"}])["status"] == 200
    assert client.call("runs/log-parameter", run_id=run, key="q", value=5)["status"] == 200
    assert client.call("runs/delete-tag", run_id=run, key="a")["status"] == 200
    assert client.call("runs/update", run_id=run, status="FINISHED", end_time=7)["run_info"]["status"] == "FINISHED"
    found = client.get("runs/get", run_id=run)["run"]
    assert found["data"]["metrics"] == [{"key": "acc", "value": 0.5, "step": 3, "timestamp": 9},
                                        {"key": "loss", "value": "NaN", "step": 4, "timestamp": 0}]
    assert found["data"]["params"] == [{"key": "p", "value": "x"}, {"key": "q", "value": "5"}]
    assert {tag["key"]: tag["value"] for tag in found["data"]["tags"]} == {"mlflow.runName": "mine", "b": "2"}
    kept = json.loads((Path(found["info"]["artifact_uri"]).parent / "run.json").read_text())
    assert kept["params"] == {"p": "x", "q": "5"}
    assert client.call("runs/log-metric", run_id=run, key="acc", value="Infinity", step=4)["status"] == 200
    assert client.get("metrics/get-history", run_id=run, metric_key="acc")["metrics"] == [
        {"key": "acc", "value": 0.5, "step": 3, "timestamp": 9},
        {"key": "acc", "value": "Infinity", "step": 4, "timestamp": 0}]
    assert client.get("metrics/get-history", run_id=run, metric_key="other")["metrics"] == []
    assert run in [one["info"]["run_id"] for one in client.call("runs/search", experiment_ids=["0"])["runs"]]


def test_an_experiment_is_made_when_it_is_named(client):
    assert client.get("experiments/get-by-name", experiment_name="mine")["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    made = client.call("experiments/create", name="mine")["experiment_id"]
    assert client.get("experiments/get-by-name", experiment_name="mine")["experiment"]["experiment_id"] == made
    assert client.call("experiments/create", name="mine")["error_code"] == "RESOURCE_ALREADY_EXISTS"


@pytest.mark.parametrize(("name", "fields", "status"), [
    ("runs/log-metric", {"run_id": "x", "key": "a", "value": 1}, 404), ("nothing/known", {}, 404),
    ("runs/log-metric", {"key": "a", "value": "text"}, 400), ("runs/log-metric", {"key": "a"}, 400),
    ("runs/log-metric", {"key": 7, "value": 1}, 400), ("runs/log-metric", {"key": "k" * 300, "value": 1}, 400),
    ("runs/log-batch", {"metrics": "text"}, 400), ("runs/log-batch", {"params": [1]}, 400),
    ("runs/log-metric", {"key": "a", "value": 1, "step": "x"}, 400), ("logged-models/m", {}, 404)])
def test_a_wrong_call_changes_nothing_and_says_what_is_wrong(client, name, fields, status):
    run = client.run()
    said = client.call(name, **{"run_id": run, **fields})
    assert said["status"] == status
    assert said["error_code"]
    assert said["message"]
    assert client.get("runs/get", run_id=run)["run"]["data"]["metrics"] == []


def test_a_parameter_keeps_its_value(client):
    run = client.run()
    assert client.call("runs/log-parameter", run_id=run, key="p", value="1")["status"] == 200
    assert client.call("runs/log-parameter", run_id=run, key="p", value="1")["status"] == 200
    assert client.call("runs/log-parameter", run_id=run, key="p", value="2")["error_code"] == "INVALID_PARAMETER_VALUE"


def test_there_is_a_bound_to_what_is_logged(tmp_path, monkeypatch):
    monkeypatch.setattr(mlflow_calls, "MOST_KEYS", 3)
    monkeypatch.setattr(mlflow_calls, "MOST_RUNS", 2)
    calls = MlflowCalls(str(tmp_path))
    def call(name, **fields):
        return calls.answer(f"/api/2.0/mlflow/{name}", json.dumps(fields).encode())
    run = call("runs/create")[1]["run"]["info"]["run_id"]
    params = [{"key": str(number), "value": "x"} for number in range(4)]
    assert call("runs/log-batch", run_id=run, params=params)[1]["error_code"] == "RESOURCE_LIMIT_EXCEEDED"
    assert call("runs/log-batch", run_id=run, params=params[:3])[0] == 200
    call("runs/create")
    assert call("runs/create")[1]["error_code"] == "RESOURCE_LIMIT_EXCEEDED"


def test_what_is_logged_takes_bounded_memory_of_the_keeper(tmp_path, monkeypatch):
    monkeypatch.setattr(mlflow_calls, "MOST_MEMORY", 200_000)
    calls = MlflowCalls(str(tmp_path))
    def call(name, /, **fields):
        return calls.answer(f"/api/2.0/mlflow/{name}", json.dumps(fields).encode())[1].get("error_code")
    run = calls.answer("/api/2.0/mlflow/runs/create", b"{}")[1]["run"]["info"]["run_id"]
    size = "x" * 50_000
    assert call("runs/log-parameter", run_id=run, key="a", value=size) is None
    assert [call("runs/set-tag", run_id=run, key="same", value=size) for _ in range(20)] == [None] * 20
    assert call("runs/log-parameter", run_id=run, key="b", value=size + size) == "RESOURCE_LIMIT_EXCEEDED"
    assert call("runs/log-batch", run_id=run, metrics=[
        {"key": str(number), "value": 1} for number in range(200)]) == "RESOURCE_LIMIT_EXCEEDED"
    assert [call("runs/log-metric", run_id=run, key="loss", value=1, step=step) for step in range(20)] == [None] * 20
    for name, fields in [("runs/create", {"start_time": [[]] * 20_000}), ("registered-models/create", {"name": "m"}),
                         ("runs/update", {"run_id": run, "run_name": size}), ("logged-models", {"name": size}),
                         ("logged-models/m/tags", {"tags": [size]})]:
        large = {**fields, "description": size}
        assert call(name, **large) == "RESOURCE_LIMIT_EXCEEDED", name


def test_what_the_trial_writes_to_the_file_of_calls_takes_bounded_memory_of_the_keeper(tmp_path):
    calls = MlflowCalls(str(tmp_path))
    run = calls.answer("/api/2.0/mlflow/runs/create", b"{}")[1]["run"]["info"]["run_id"]
    os.truncate(tmp_path / mlflow_calls.FOLDER / CALLS_FILE, 100_000_000)
    tracemalloc.start()
    asked = json.dumps({"run_id": run, "metric_key": "loss"}).encode()
    assert calls.answer("/api/2.0/mlflow/metrics/get-history", asked) == (200, {"metrics": []})
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def test_what_is_logged_again_after_the_disk_was_full_is_not_lost(tmp_path, monkeypatch):
    calls = MlflowCalls(str(tmp_path))

    def ask(name: str, **fields) -> tuple[int, dict]:
        return calls.answer("/api/2.0/mlflow/" + name, json.dumps(fields).encode())

    run = ask("runs/create", experiment_id="0")[1]["run"]["info"]["run_id"]
    write = mlflow_calls.os.write
    monkeypatch.setattr(mlflow_calls.os, "write", lambda descriptor, data: write(descriptor, data[:20]))
    assert ask("runs/log-metric", run_id=run, key="loss", value=0.5, timestamp=1)[0] == 500
    monkeypatch.undo()
    assert ask("runs/log-metric", run_id=run, key="loss", value=0.5, timestamp=1) == (200, {})
    assert [one.values for one in MlflowMetrics(str(tmp_path), "mlflow", 0).read(final=True)] == [{"loss": 0.5}]


def test_a_batch_of_metrics_has_the_bound_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(mlflow_calls, "MOST_KEYS", 3)
    calls = MlflowCalls(str(tmp_path))
    run = calls.answer("/api/2.0/mlflow/runs/create", b"{}")[1]["run"]["info"]["run_id"]
    def log(*keys):
        metrics = [{"key": key, "value": 1} for key in keys]
        return calls.answer("/api/2.0/mlflow/runs/log-batch", json.dumps({"run_id": run, "metrics": metrics}).encode())
    assert log("a", "b", "c", "d")[1]["error_code"] == "RESOURCE_LIMIT_EXCEEDED"
    assert [log("a", "b", "c")[0], log("c", "a")[0], log("d")[0]] == [200, 200, 400]
    assert calls.answer("/api/2.0/mlflow/runs/log-metric", json.dumps(
        {"run_id": run, "key": "a", "value": 2}).encode())[0] == 200, "it is there already"


def test_a_document_that_is_nested_too_deeply_for_an_answer_ends_one_connection(endpoint):
    client = Client(endpoint)
    for depth in range(940, 1000):  # what can be read and not be written is between two of these
        with contextlib.suppress(requests.ConnectionError):
            client.session.post(f"{client.url}/api/2.0/mlflow/runs/create", timeout=30,
                                data='{"start_time": ' + "[" * depth + "]" * depth + "}")
    assert client.call("runs/create")["status"] == 200


# --- the metrics --------------------------------------------------------------------------------


def test_metrics_of_runs_without_a_parent_are_read_and_others_are_not(tmp_path):
    calls = MlflowCalls(str(tmp_path))
    def call(name, **fields):
        return calls.answer(f"/api/2.0/mlflow/{name}", json.dumps(fields).encode())[1]
    run = call("runs/create")["run"]["info"]["run_id"]
    child = call("runs/create", tags=[{"key": "mlflow.parentRunId", "value": run}])["run"]["info"]["run_id"]
    call("runs/log-metric", run_id=run, key="epoch", value=1, step=1)
    call("runs/log-metric", run_id=child, key="epoch", value=2, step=1)
    batch = [("a", 1, 5), ("b", "NaN", 5), ("a", 2, 6)]
    call("runs/log-batch", run_id=run, metrics=[
        {"key": key, "value": value, "step": step} for key, value, step in batch])
    source = MlflowMetrics(str(tmp_path), "mlflow", 0)
    first, second, third = source.read()
    assert (first.values, first.step) == ({"epoch": 1}, 1)
    assert (second.values["a"], second.step, math.isnan(second.values["b"])) == (1, 5, True)
    assert (third.values, third.step) == ({"a": 2}, 6)
    again = MlflowMetrics(str(tmp_path), "mlflow", first.position)
    assert [measured.step for measured in again.read()] == [5, 6]


def test_a_call_with_very_many_metrics_is_read_whole(tmp_path):
    calls = MlflowCalls(str(tmp_path))
    run = calls.answer("/api/2.0/mlflow/runs/create", b"{}")[1]["run"]["info"]["run_id"]
    metrics = [{"key": f"metric {number}" * 10, "value": number} for number in range(5000)]
    calls.answer("/api/2.0/mlflow/runs/log-batch", json.dumps({"run_id": run, "metrics": metrics}).encode())
    assert (tmp_path / "mlflow" / CALLS_FILE).stat().st_size > 500_000
    source, read = MlflowMetrics(str(tmp_path), "mlflow", 0), []
    read += source.read()
    while source.has_more:
        read += source.read()
    assert [len(measured.values) for measured in read] == [5000]


def test_a_proxy_of_the_machine_is_not_asked():
    job = {"environment": {"https_proxy": "http://p", "HTTP_PROXY": "http://p", "NO_PROXY": "a.example"}}
    found = trial_environment(job, {}, nni_folder="/n", working_directory="/w", wake=None, for_trials=None, mark="m",
                              further={MLFLOW_URI: "http://127.0.0.1:1"})
    assert (found["NO_PROXY"], found["no_proxy"]) == ("a.example,127.0.0.1", "127.0.0.1")


# --- a trial ------------------------------------------------------------------------------------

LOGS = """
import json, os, time, urllib.request
def call(name, **fields):
    request = urllib.request.Request(os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/" + name,
        json.dumps(fields).encode(), {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]})
    return json.load(urllib.request.urlopen(request))
run = call("runs/create")["run"]["info"]["run_id"]
"""


def test_nothing_that_was_answered_is_lost_or_doubled_when_the_keeper_is_killed(keeper, server):
    code = LOGS + ("for step in range(100000):\n"
                   "    call('runs/log-metric', run_id=run, key='loss', value=step, step=step)\n"
                   "    open('answered', 'w').write(str(step))\n")
    keeper.limits["grace_period"] = 0.2
    process = keeper.start(keeper.python_command(code), metrics={"mlflow": True, "result": "loss"},
                           code={"folder": str(keeper.folder)})
    server.wait_for(lambda: len(server.values()) > 50)
    process.kill()
    process.wait()
    wait_until(lambda: not keeper.trial_processes(), what="a trial that ends because nobody answers")
    answered = int((keeper.folder / "answered").read_text())
    keeper.run()
    reported = [json.loads(value) for value in server.values()]
    assert reported == list(range(len(reported)))
    assert len(reported) - 1 in (answered, answered + 1)


@pytest.mark.parametrize(("uri", "is_here"), [
    ("./mlruns", True), ("/data/mlruns", True), ("file:///data/mlruns", True), ("sqlite:///mlflow.db", True),
    ("http://localhost:5000", True), ("http://127.0.0.1:8080/", True), ("https://[::1]:5000", True),
    ("http://mlflow.example.org", False), ("https://10.0.0.7:5000", False), ("http://localhost.example.org", False)])
def test_a_store_on_the_trials_machine_is_told_from_a_server_elsewhere(uri, is_here):
    assert mlflow_stores.is_on_this_machine(uri) is is_here


def test_mlflow_finds_a_plugin_for_such_stores_where_the_trial_looks_for_packages(endpoint, tmp_path):
    folder = endpoint.folder_for_trials(str(tmp_path))
    [found] = importlib.metadata.distributions(path=[folder])
    points = {(point.group, point.name): point.value for point in found.entry_points}
    assert points["mlflow.tracking_store", "sqlite"] == "nniweb_mlflow_stores:tracking_store"
    assert points["mlflow.model_registry_store", "http"] == "nniweb_mlflow_stores:model_registry_store"
    assert (Path(folder) / "nniweb_mlflow_stores.py").read_text() == Path(mlflow_stores.__file__).read_text()


NAMES_A_STORE = """
import mlflow, os
for uri in ("sqlite:///mlflow.db", "./mlruns", "file:" + os.path.abspath("mlruns"), "http://localhost:1"):
    os.environ["MLFLOW_TRACKING_URI"] = uri
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("mine")
    with mlflow.start_run():
        mlflow.log_metric("acc", 0.5)
        mlflow.log_text("weights", "weights.txt")
assert not os.path.exists("mlruns") and not os.path.exists("mlflow.db"), os.listdir(".")
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_script_that_names_a_store_on_its_machine_logs_to_its_trial(version, keeper, server):
    keeper.python = str(mlflow_python(version))
    command = keeper.python_command(NAMES_A_STORE)
    keeper.python = sys.executable
    assert keeper.run(command, seconds=300, metrics={"mlflow": True, "result": "acc"}) == 0, server.output("stderr")
    assert [json.loads(value) for value in server.values()] == [0.5] * 5
    assert len(list((keeper.folder / "nni" / "mlflow").glob("*/artifacts/weights.txt"))) == 4


SCRIPT = """
import mlflow
mlflow.autolog()
mlflow.set_experiment("digits")
with mlflow.start_run(run_name="first"):
    mlflow.log_params({"rate": 0.1, "layers": 3})
    mlflow.set_tag("kind", "test")
    for epoch in range(3):
        mlflow.log_metric("loss", 3 - epoch, step=epoch)
        mlflow.log_metrics({"acc": epoch / 4}, step=epoch)
    with mlflow.start_run(nested=True):
        mlflow.log_metric("acc", 99)
    mlflow.log_text("weights", "model/weights.txt")
    mlflow.log_dict({"a": 1}, "about.json")
    mlflow.log_metric("acc", float("nan"), step=3)
    mlflow.log_metric("acc", 0.9, step=4, synchronous=False)
mlflow.flush_async_logging()
print(sorted(mlflow.get_run(mlflow.last_active_run().info.run_id).data.params.items()))
print([run.info.run_name for run in mlflow.search_runs(search_all_experiments=True, output_format="list")])
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_script_that_logs_to_mlflow_needs_no_change(version, keeper, server):
    keeper.python = str(mlflow_python(version))
    command = keeper.python_command(SCRIPT)
    keeper.python = sys.executable
    assert keeper.run(command, seconds=300, metrics={"mlflow": True, "result": "acc", "final": "best"}) == 0, \
        server.output("stderr")
    values = [json.loads(value) for value in server.values()]
    assert [(value["default"], value["loss"]) for value in values[:3]] == [(0, 3), (0.25, 2), (0.5, 1)]
    assert math.isnan(values[3]["default"])
    assert [value["default"] for value in values[4:]] == [0.9, 0.9]
    assert "[('layers', '3'), ('rate', '0.1')]" in server.output()
    output = keeper.folder / "nni" / "mlflow"
    assert [path.read_text() for path in output.glob("*/artifacts/model/weights.txt")] == ["weights"]
    [kept] = [json.loads(path.read_text()) for path in output.glob("*/run.json") if "first" in path.read_text()]
    assert kept["tags"]["kind"] == "test"
    assert kept["info"]["status"] == "FINISHED"
