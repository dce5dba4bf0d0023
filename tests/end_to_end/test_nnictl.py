"""The official nnictl of three releases against the port of an experiment."""

import csv
import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import RunningServer, free_port
from tests.fakes.official_nni import official_python
from tests.trialkeeper.keeper_run import NO_OLD_PYTHON, old_python, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TRIAL = """
import nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x / 2)
nni.report_final_result(x)
"""
#: Colours, which nnictl prints also where nobody sees them.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Nnictl:
    """nnictl of one release, with a home folder of its own."""

    def __init__(self, version: str, home: Path) -> None:
        self.version, self.home = version, home
        self._environment = {**os.environ, "HOME": str(home), "NO_PROXY": "*", "PYTHONWARNINGS": "ignore",
                             "TERM": "dumb"}
        if version == "1.7.1":
            interpreter = old_python("3.6")
            if interpreter is None:
                pytest.skip(NO_OLD_PYTHON % "3.6")
            self._program = official_python("1.7.1 nnictl", interpreter).with_name("nnictl")
        else:
            named = version if version == "3.0" else f"{version} nnictl"
            self._program = official_python(named).with_name("nnictl")

    def __call__(self, *arguments: str, status: int = 0) -> str:
        done = subprocess.run([str(self._program), *arguments], capture_output=True, text=True, timeout=120,
                              env=self._environment, check=False, stdin=subprocess.DEVNULL)
        said = COLOURS.sub("", done.stdout + done.stderr)
        assert done.returncode == status, said
        assert "Traceback" not in said, said
        assert status or "ERROR" not in done.stdout, said
        return COLOURS.sub("", done.stdout)


    def shows(self, words: str, *arguments: str) -> None:
        """Wait until a command that does not end has printed the words, and end it."""
        out = self.home / "out"
        with out.open("w") as file:
            process = subprocess.Popen([str(self._program), *arguments], stdout=file, stderr=file,
                                       stdin=subprocess.DEVNULL, env=self._environment)
        try:
            wait_until(lambda: words in out.read_text() or process.poll() is not None, 60)
            assert words in out.read_text(), out.read_text()
        finally:
            process.kill()
            process.wait()


@pytest.fixture(params=["3.0", "2.10.1", "1.7.1"])
def nnictl(request: pytest.FixtureRequest, tmp_path: Path) -> Nnictl:
    (tmp_path / "home").mkdir()
    return Nnictl(request.param, tmp_path / "home")


@pytest.fixture
def server(make_server: Any, nnictl: Nnictl) -> RunningServer:
    return make_server({"HOME": str(nnictl.home)}).start()


def launch(server: RunningServer, folder: Path, **more: Any) -> str:
    code = folder / "code"
    code.mkdir(exist_ok=True)
    (code / "trial.py").write_text(TRIAL)
    experiment = server.launch({
        "experimentName": "for nnictl", "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code),
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialConcurrency": 2, "maxTrialNumber": 4,
        "tuner": {"name": "TPE"}, "trainingService": {"platform": "local"}, **more}, code)
    server.wait_for_experiment(experiment)
    return experiment


def test_every_command_that_looks_at_an_experiment_works_with_each_nnictl(
    server: RunningServer, nnictl: Nnictl, tmp_path: Path
) -> None:
    first, second = launch(server, tmp_path), launch(server, tmp_path, experimentName="another")
    ports = {experiment: free_port() for experiment in (first, second)}
    for experiment, port in ports.items():
        said = server.manage("nni-port", experiment, str(port)).stdout  # no restart
        assert f"at port {port} of this machine, without a token" in said

    listed = nnictl("experiment", "list")
    assert first in listed
    assert second in listed
    config = json.loads(nnictl("config", "show", first))
    config = config.get("experimentConfig", config)  # of NNI 1
    assert (config["experimentName"], config["trialCommand"], config["maxTrialNumber"]) == (
        "for nnictl", "python3 trial.py", 4)
    trials = server.get_all(f"experiments/{first}/trials/")
    paths = nnictl("log", "trial", first)
    for trial in trials:
        folder = re.search(f"id:{trial['id']} path:(.*)", paths)
        assert folder is not None, paths
        assert Path(folder[1].strip()).is_dir()
    assert trials[0]["id"] in nnictl("log", "trial", first, "--trial_id", trials[0]["id"])
    output = nnictl("log", "stdout", first)
    assert "trial 0 ended: SUCCEEDED" in output
    assert "another" not in output
    assert nnictl("log", "stdout", first, "--tail", "1").strip() == output.strip().splitlines()[-1]
    assert nnictl("log", "stderr", first).strip() == ""
    assert trials[0]["id"] in nnictl("trial", "ls", first)
    assert "execDuration" in nnictl("experiment", "show", first)
    assert '"status":"DONE"' in nnictl("experiment", "status", first).replace(" ", "")
    assert str(ports[first]) in nnictl("webui", "url", first) or nnictl.version == "1.7.1"
    nnictl("experiment", "export", first, "--filename", str(tmp_path / "out.csv"), "--type", "csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert sorted(float(row["x"]) for row in csv.DictReader(file)) == sorted(
            trial["parameters"]["x"] for trial in trials)

    server.manage("nni-port", second, "--close")
    assert second not in nnictl("experiment", "list", "--all")
    assert first in nnictl("experiment", "list")
    assert [path.name for path in (nnictl.home / "nni-experiments").iterdir() if path.is_dir()] == [first]
    server.stop()
    assert not (nnictl.home / "nni-experiments" / first).exists()
    assert not (nnictl.home / ".local" / "nnictl" / first).exists()


def test_an_experiment_is_changed_and_given_results_by_each_nnictl(
    server: RunningServer, nnictl: Nnictl, tmp_path: Path
) -> None:
    experiment = launch(server, tmp_path)
    server.manage("nni-port", experiment, str(free_port()))
    nnictl("update", "trialnum", experiment, "--value", "100000")
    nnictl("update", "concurrency", experiment, "--value", "1")
    nnictl("update", "duration", experiment, "--value", "3h")
    (tmp_path / "space.json").write_text(json.dumps({"x": {"_type": "uniform", "_value": [0, 2]}}))
    nnictl("update", "searchspace", experiment, "--filename", str(tmp_path / "space.json"))
    found = server.get(f"experiments/{experiment}/")
    assert (found["max_trial_number"], found["trial_concurrency"], found["max_duration"]) == (100_000, 1, 10_800)
    assert found["search_space"]["x"]["_value"] == [0, 2]
    server.wait_for_experiment(experiment, "RUNNING")
    results = [{"parameter": {"x": 0.125}, "value": 9}, {"parameter": {"x": 0.25}, "value": {"default": 8}}]
    (tmp_path / "results.json").write_text(json.dumps(results))
    nnictl("experiment", "import", experiment, "--filename", str(tmp_path / "results.json"))
    events = server.get_all(f"experiments/{experiment}/events/")
    assert "2 results were imported for the tuner." in [event["message"] for event in events]
    shown = json.loads(nnictl("config", "show", experiment))
    assert shown.get("experimentConfig", shown)["trialConcurrency"] == 1  # as it is now
    trial = server.get_all(f"experiments/{experiment}/trials/")[0]["id"]
    nnictl("trial", "kill", experiment, "--trial_id", trial)
    nnictl.shows(trial, "top")
    nnictl("stop", experiment)
    server.wait_for_experiment(experiment, "STOPPED")
    assert server.is_alive


def test_a_port_stays_open_over_a_restart_until_it_is_closed(make_server: Any, tmp_path: Path) -> None:
    server = make_server({"HOME": str(tmp_path)}).start()
    experiment = launch(server, tmp_path)
    port = free_port()
    server.manage("nni-port", experiment, str(port))
    assert experiment in server.manage("nni-port").stdout
    other = launch(server, tmp_path)
    refused = server.manage("nni-port", other, str(port), check=False)
    assert f"Port {port} belongs to for nnictl ({experiment})" in refused.stderr
    taken = server.manage("nni-port", other, str(server.port), check=False)
    assert f"Port {server.port} on 127.0.0.1 cannot be used" in taken.stderr
    server.stop()
    away = server.manage("nni-port", other, str(free_port()), check=False)
    assert "No server on this machine has opened port" in away.stderr
    with socket.create_server(("127.0.0.1", port)):  # another program takes it meanwhile
        server.start()
        said = server.wait_until(lambda: server.get(f"experiments/{experiment}/")["nni_port"]["message"])
        assert said == (f"The port is not open: port {port} cannot be used: Address already in use. Another program "
                        f"probably uses port {port}. The server opens it as soon as it is free.")
        assert said in server.manage("nni-port").stdout
    server.wait_until(lambda: not server.get(f"experiments/{experiment}/")["nni_port"]["message"], what="it is open")
    for each in (experiment, other):
        server.wait_until(lambda each=each: f"find experiment {each} at port" in server.log_tail(), what="it is open")
        server.manage("nni-port", each, "--close")
    assert "No experiment has a port" in server.manage("nni-port").stdout
    shutil.rmtree(tmp_path / "nni-experiments")
