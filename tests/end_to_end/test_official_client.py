"""NNI's own Python client (``nni.experiment.Experiment.connect``) and nnictl against our server."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.end_to_end.running_server import RunningServer, free_port
from tests.fakes.official_nni import official_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

CLIENT = """
import json, sys
from nni.experiment import Experiment
experiment = Experiment.connect(int(sys.argv[1]))
jobs = experiment.list_trial_jobs()
metrics = experiment.get_job_metrics()
statistics = experiment.get_job_statistics()
experiment.update_trial_concurrency(3)
experiment.update_max_trial_number(6)
first = experiment.get_trial_job(jobs[0].trialJobId)
print(json.dumps({
    "id": experiment.id, "status": experiment.get_status(), "statistics": statistics,
    "trials": [[job.trialJobId, job.status, job.sequenceId, job.hyperParameters[0].parameters,
                job.finalMetricData[0].data, job.endTime > job.startTime] for job in jobs],
    "metrics": {trial: [[one.type, one.sequence, one.data] for one in ones] for trial, ones in metrics.items()},
    "same": [first.trialJobId, first.finalMetricData[0].data],
    "exported": [[result.parameter, result.value] for result in experiment.export_data()],
    "concurrency": experiment.get_experiment_profile()["params"]["trialConcurrency"],
}))
"""
STOP = """
import sys
from nni.experiment import Experiment
Experiment.connect(int(sys.argv[1])).stop()
"""
WHO = """
import json, sys
from nni.experiment import Experiment
experiment = Experiment.connect(int(sys.argv[1]))
print(json.dumps({"id": experiment.id, "pid": experiment.get_experiment_metadata(experiment.id)["pid"],
                  "status": experiment.get_status()}))
"""
TRIAL = """
import nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x / 2)
nni.report_final_result({"default": x, "other": "text"})
"""


class Client:
    """The official package in a process of its own, with a home folder of its own."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.home = home
        self.python = official_python("3.0")

    def run(self, *command: str) -> str:
        environment = {**os.environ, "HOME": str(self.home), "NO_PROXY": "*"}
        done = subprocess.run([str(self.python), *command], capture_output=True, text=True, timeout=120,
                              env=environment, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def code(self, text: str, port: int) -> Any:
        out = self.run("-c", text, str(port)).strip().splitlines()
        return json.loads(out[-1]) if out and out[-1].startswith("{") else None


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "home")


@pytest.fixture
def served(make_server: Any, client: Client, tmp_path: Path) -> tuple[RunningServer, str, int]:
    """A server with an experiment that is done, and a port for NNI's client."""
    server = make_server({"HOME": str(client.home)}).start()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text(TRIAL)
    experiment = server.launch({
        "experimentName": "for nni", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(tmp_path / "code"),
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialConcurrency": 2, "maxTrialNumber": 4,
        "tuner": {"name": "Random"}, "trainingService": {"platform": "local"}}, tmp_path / "code")
    server.wait_for_experiment(experiment)
    server.stop()
    port = free_port()
    server.start("--nni-port", f"{experiment}={port}")
    server.wait_until(lambda: "Every local user can control" in server.log_tail(), what="the port is announced")
    return server, experiment, port


def test_the_official_client_lists_reads_and_changes(served: tuple[RunningServer, str, int], client: Client) -> None:
    server, experiment, port = served
    said = client.code(CLIENT, port)
    assert said["id"] == experiment
    assert said["statistics"] == [{"trialJobStatus": "SUCCEEDED", "trialJobNumber": 4}]
    trials = server.get_all(f"experiments/{experiment}/trials/")[:4]
    assert said["trials"] == [[trial["id"], "SUCCEEDED", trial["sequence_id"], trial["parameters"],
                               {"default": trial["parameters"]["x"], "other": "text"}, True] for trial in trials]
    for trial in trials:
        x = trial["parameters"]["x"]
        assert said["metrics"][trial["id"]] == [["PERIODICAL", 0, x / 2],
                                                ["FINAL", 0, {"default": x, "other": "text"}]]
    assert said["same"] == [trials[0]["id"], said["trials"][0][4]]
    assert said["exported"] == [[trial[3], trial[4]] for trial in said["trials"]]
    assert said["concurrency"] == 3
    server.wait_for_experiment(experiment)
    assert server.get(f"experiments/{experiment}/")["trial_concurrency"] == 3
    assert len(server.get_all(f"experiments/{experiment}/trials/")) == 6


def test_its_stop_stops_the_experiment_and_not_the_server(
    served: tuple[RunningServer, str, int], client: Client
) -> None:
    server, experiment, port = served
    server.patch(f"experiments/{experiment}/", {"max_trial_number": 100_000})
    server.wait_for_experiment(experiment, "RUNNING")
    client.code(STOP, port)
    server.wait_for_experiment(experiment, "STOPPED")
    assert server.is_alive


def test_nnictl_finds_lists_and_stops_it(served: tuple[RunningServer, str, int], client: Client) -> None:
    server, experiment, port = served
    nnictl = str(client.python.with_name("nnictl"))
    assert experiment in client.run(nnictl, "experiment", "list", "--all")
    server.patch(f"experiments/{experiment}/", {"max_trial_number": 100_000})
    server.wait_for_experiment(experiment, "RUNNING")
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert trials[0]["id"] in client.run(nnictl, "trial", "ls", experiment)
    client.run(nnictl, "update", "concurrency", experiment, "--value", "1")
    assert server.get(f"experiments/{experiment}/")["trial_concurrency"] == 1
    client.run(nnictl, "stop", experiment)
    server.wait_for_experiment(experiment, "STOPPED")
    assert server.is_alive


def test_a_stop_and_a_resume_on_our_side_are_seen_by_nnis_tools(
    served: tuple[RunningServer, str, int], client: Client
) -> None:
    server, experiment, port = served
    server.patch(f"experiments/{experiment}/", {"max_trial_number": 100_000})
    server.wait_for_experiment(experiment, "RUNNING")
    pid = client.code(WHO, port)["pid"]
    assert registry_of(server)[experiment]["pid"] == pid
    server.manage("experiments", "stop", experiment)
    server.wait_for_experiment(experiment, "STOPPED")
    server.wait_until(lambda: not is_process(pid), what="the process that stands for the experiment ends")
    server.wait_until(lambda: registry_of(server)[experiment]["status"] == "STOPPED", what="the registry says so")
    assert client.code(WHO, port) == {"id": experiment, "pid": None, "status": "STOPPED"}
    nnictl = str(client.python.with_name("nnictl"))
    assert experiment not in client.run(nnictl, "experiment", "list")
    server.manage("experiments", "resume", experiment)
    server.wait_until(lambda: registry_of(server)[experiment]["pid"], what="there is such a process again")
    assert registry_of(server)[experiment]["status"] == "RUNNING"
    assert client.code(WHO, port)["pid"] == registry_of(server)[experiment]["pid"] != pid
    client.run(nnictl, "stop", experiment)
    server.wait_for_experiment(experiment, "STOPPED")


def is_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def registry_of(server: RunningServer) -> dict[str, Any]:
    return json.loads((Path(server.environment["HOME"]) / "nni-experiments" / ".experiment").read_text())


def test_the_port_is_for_nobody_elses_pages_and_nothing_else(served: tuple[RunningServer, str, int]) -> None:
    server, experiment, port = served
    with requests.Session() as session:
        session.trust_env = False
        root = f"http://127.0.0.1:{port}"
        assert session.get(f"{root}/api/v1/nni/check-status", timeout=90).json()["status"] == "DONE"
        from_elsewhere = session.get(f"{root}/api/v1/nni/check-status", headers={"Origin": "http://evil.example"},
                                     timeout=90)
        assert from_elsewhere.status_code == 403
        assert session.get(f"{root}/api/v1/experiments/", timeout=90).status_code == 404
        assert session.get(f"{server.url}/nni/{experiment}/api/v1/nni/check-status",
                           timeout=90).status_code in (401, 403)
    assert server.stop() == 0
    assert experiment not in registry_of(server)


@pytest.mark.parametrize(("written", "words"), [
    ("nowhere=8081", "there is no experiment nowhere"), ("8081", "expected EXPERIMENT=PORT"),
    ("abc=text", "expected EXPERIMENT=PORT")])
def test_a_wrong_nni_port_ends_the_start_with_a_sentence(make_server: Any, written: str, words: str) -> None:
    done = make_server().manage("serve", "--nni-port", written, check=False)
    assert done.returncode == 1
    assert words in done.stderr
