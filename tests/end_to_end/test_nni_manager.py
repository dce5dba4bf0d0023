"""The process that takes the place of NNI's manager, started and asked as NNI does it, without NNI."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import requests

from nniweb.nni_experiment import FOLDER
from tests.end_to_end.running_server import ROOT, RunningServer, free_port

CONFIG = {"experimentName": "of nni", "trialCommand": "sleep 600", "trialConcurrency": 1, "maxTrialNumber": 9,
          "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
          "trainingService": {"platform": "local"}}


class ManagerProcess:
    """One experiment's, with NNI's arguments."""

    def __init__(self, action: str, identifier: str, server: RunningServer, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder / "nni-experiments"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NNIWEB_")}
        self.process = subprocess.Popen(
            [FOLDER / "nni_node" / "node", "--max-old-space-size=4096", "--trace-uncaught", "main.js", "--port",
             str(self.port), "--experiment-id", identifier, "--action", action, "--mode", "local",
             "--experiments-directory", str(self.folder), "--log-level", "info", "--foreground", "false",
             "--url-prefix", "some/where", "--python-interpreter", sys.executable], cwd=folder, env={
                **kept, "HOME": str(folder), "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": server.url,
                "NNIWEB_TOKEN": server.token})
        server.wait_until(lambda: self.status_of("GET", "check-status") == 200, what="the manager answers")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        return requests.request(method, f"http://127.0.0.1:{self.port}/some/where/api/v1/nni/{path}", json=body,
                                headers=headers, timeout=60)

    def ask_as_written(self, method: str, path: str) -> tuple[int, str]:
        """A path that ``requests`` would shorten first."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/some/where/api/v1/nni/{path}")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def status_of(self, method: str, path: str) -> int:
        try:
            return self.ask(method, path).status_code
        except requests.ConnectionError:
            assert self.process.poll() is None
            return 0


@pytest.fixture
def start(running_server: RunningServer, tmp_path: Path) -> Iterator[Any]:
    started: list[ManagerProcess] = []

    def begin(action: str, identifier: str = "abcd1234") -> ManagerProcess:
        started.append(ManagerProcess(action, identifier, running_server, tmp_path))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait()


@pytest.mark.slow
def test_it_launches_answers_stops_resumes_and_views(start: Any, running_server: RunningServer, tmp_path: Path) -> None:
    manager = start("create")
    assert manager.ask("GET", "check-status").json() == {"status": "INITIALIZED", "errors": []}
    refused = manager.ask("POST", "experiment", {**CONFIG, "trialConcurrency": 0})
    assert refused.status_code == 500
    assert "trialConcurrency: must be greater than 0" in refused.json()["error"]
    assert manager.ask("POST", "experiment", [1]).json()["error"] == "The body must be the config, an object."
    assert manager.ask("GET", "trial-jobs").json()["error"] == "The experiment has not been started."
    assert manager.ask("POST", "experiment", CONFIG).ok
    [here] = running_server.get("experiments/")["results"]
    assert here["name"] == "of nni"

    profile = manager.ask("GET", "experiment").json()
    assert (profile["id"], profile["params"]["trialConcurrency"]) == ("abcd1234", 1)
    [entry] = manager.ask("GET", "experiments-info").json()
    assert (entry["id"], entry["port"], entry["pid"]) == ("abcd1234", manager.port, manager.process.pid)
    profile["params"]["trialConcurrency"] = 2
    assert manager.ask("PUT", "experiment?update_type=TRIAL_CONCURRENCY", profile).ok
    assert running_server.get(f"experiments/{here['id']}/")["trial_concurrency"] == 2
    assert manager.ask("GET", "nonsense").status_code == 404

    for strange in ({"Origin": "https://elsewhere.example"}, {"Host": "elsewhere.example:80"}):
        assert manager.ask("GET", "check-status", **strange).status_code == 403
    # whoever reaches the port controls this experiment, and has not the token's other rights
    for inside in ("../../../../../api/v1/account/.", "%2e%2e/%2E%2E/%2e%2e/%2e%2e/%2e%2e/api/v1/account/."):
        status, said = manager.ask_as_written("GET", inside)
        assert status == 404
        assert "is no address of NNI's interface" in said
    page = requests.get(f"http://127.0.0.1:{manager.port}/", allow_redirects=False, timeout=60)
    assert (page.status_code, page.headers["Location"]) == (302, f"{running_server.url}/experiments/{here['id']}/")
    assert manager.ask("DELETE", "experiment").ok
    assert manager.process.wait(60) == 0
    running_server.wait_for_experiment(here["id"], "STOPPED")

    viewer = start("view")
    assert viewer.ask("POST", "experiment", CONFIG).ok
    assert viewer.ask("GET", "check-status").json()["status"] == "STOPPED"
    assert viewer.ask("DELETE", "experiment").ok
    assert viewer.process.wait(60) == 0

    again = start("resume")
    stored = json.loads((tmp_path / "nni-experiments" / "abcd1234" / "nniweb.json").read_text())
    assert stored["experiment"] == here["id"]
    assert again.ask("POST", "experiment", {**CONFIG, "maxTrialNumber": 12}).ok
    running_server.wait_for_experiment(here["id"], "RUNNING")
    assert running_server.get(f"experiments/{here['id']}/")["max_trial_number"] == 12
    again.process.terminate()  # as NNI's kill_command does it
    assert again.process.wait(90) == 0
    running_server.wait_for_experiment(here["id"], "STOPPED")


def test_a_server_that_cannot_be_used_is_said_to_who_asks(tmp_path: Path, start: Any,
                                                          running_server: RunningServer) -> None:
    running_server.token = "nniweb_wrong"
    manager = start("create")
    answer = manager.ask("POST", "experiment", CONFIG)
    assert answer.status_code == 500
    assert "token" in answer.json()["error"]
