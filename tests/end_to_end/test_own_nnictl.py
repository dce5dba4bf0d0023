"""``nniweb nnictl`` against a server: what NNI's command line does, and how its output reads."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nniweb.nnictl.program import main
from nniweb.storage.data_folder import ServerLock
from tests.end_to_end.running_server import ROOT, RunningServer, free_port
from trainingservice.testing.processes import end_processes, processes_of

CONFIG = """
experimentName: by our nnictl
trialCommand: python3 trial.py
trialConcurrency: 2
maxTrialNumber: 3
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService: {platform: local}
"""
TRIAL = """
import nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x / 2)
nni.report_final_result(x)
"""
Nnictl = Callable[..., str]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text(TRIAL)
    (tmp_path / "code" / "config.yml").write_text(CONFIG)
    slow = CONFIG.replace("python3 trial.py", "sleep 600").replace("maxTrialNumber: 3", "maxTrialNumber: 30")
    (tmp_path / "code" / "slow.yml").write_text(slow)
    return tmp_path / "code" / "config.yml"


@pytest.fixture
def nnictl(running_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Nnictl:
    monkeypatch.setenv("NNIWEB_SERVER", running_server.url)
    monkeypatch.setenv("NNIWEB_TOKEN", running_server.token)

    def call(*arguments: str, status: int = 0) -> str:
        out, err = io.StringIO(), io.StringIO()
        assert main(list(arguments), out=out, err=err) == status, err.getvalue()
        return out.getvalue() + err.getvalue()

    return call


def test_an_experiment_lives_by_nnis_verbs(nnictl: Nnictl, config: Path, running_server: RunningServer,
                                           tmp_path: Path) -> None:
    assert "No experiment runs. Give the id of one" in nnictl("webui", "url", status=1)
    said = nnictl("create", "--config", str(config), "-p", "8080", "-f")
    [here] = running_server.get("experiments/")["results"]
    identifier = here["id"]
    assert f"Experiment {identifier} was launched: by our nnictl" in said
    assert f"nni-port {identifier} 8080" in said
    assert "DONE  3/3 ended (3 succeeded)" in said

    trials = json.loads(nnictl("trial", "ls", identifier))
    assert sorted(trial["sequenceId"] for trial in trials) == [0, 1, 2]
    [best] = json.loads(nnictl("trial", "ls", identifier, "--head", "1"))
    [worst] = json.loads(nnictl("trial", "ls", identifier, "--tail", "1"))
    values = {trial["id"]: trial["final_number"] for trial in running_server.get_all(
        f"experiments/{identifier}/trials/")}
    assert (values[best["trialJobId"]], values[worst["trialJobId"]]) == (max(values.values()), min(values.values()))
    assert json.loads(nnictl("experiment", "status", identifier))["status"] == "DONE"
    assert json.loads(nnictl("experiment", "show", identifier))["id"] == identifier
    assert json.loads(nnictl("config", "show", identifier))["trialConcurrency"] == 2
    assert nnictl("webui", "url", identifier).strip() == here_url(running_server, identifier)
    assert here_url(running_server, identifier) in nnictl("view", identifier)
    assert "No experiment runs" in nnictl("experiment", "list")
    assert identifier in nnictl("experiment", "list", "--all")
    assert "trial 0 ended: SUCCEEDED" in nnictl("log", "stdout", identifier)
    assert len(nnictl("log", "stdout", identifier, "--tail", "2").splitlines()) == 2
    assert nnictl("log", "stderr", identifier) == ""
    assert f"id:{best['trialJobId']} path:/" in nnictl("log", "trial", identifier, "-T", best["trialJobId"])

    nnictl("experiment", "export", identifier, "-t", "json", "-f", str(tmp_path / "out.json"), "-i")
    exported = json.loads((tmp_path / "out.json").read_text())
    assert [record["intermediate"] for record in exported] == [[record["value"] / 2] for record in exported]
    nnictl("experiment", "export", identifier, "--type", "csv", "--filename", str(tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 3
    assert "3 results were imported" in nnictl("experiment", "import", identifier, "-f", str(tmp_path / "out.json"))
    assert f"TensorBoard: {running_server.url}/" in nnictl("tensorboard", "start", identifier)
    assert len(running_server.get(f"experiments/{identifier}/tensorboards/")) == 1
    assert nnictl("tensorboard", "stop", identifier) == "1 closed.\n"
    assert running_server.get(f"experiments/{identifier}/tensorboards/") == []
    assert "Deleting cannot be undone" in nnictl("experiment", "delete", identifier, status=1)


def test_on_its_own_machine_the_code_stays_where_it_lies(config: Path, running_server: RunningServer,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NNIWEB_SERVER", raising=False)
    monkeypatch.setenv("NNIWEB_DATA", str(running_server.data_folder))
    (config.parent / "trial.py").write_text("import pathlib\npathlib.Path('beside').write_text('')\n" + TRIAL)
    assert main(["create", "--config", str(config), "-f"], out=io.StringIO(), err=io.StringIO()) == 0
    assert (config.parent / "beside").exists()


def here_url(server: RunningServer, identifier: str) -> str:
    return f"{server.url}/experiments/{identifier}/"


@pytest.mark.slow
def test_experiments_are_changed_stopped_and_resumed_by_nnis_verbs(nnictl: Nnictl, config: Path, tmp_path: Path,
                                                                   running_server: RunningServer) -> None:
    for _ in range(2):
        nnictl("create", "-c", str(config.with_name("slow.yml")))
    first, second = [found["id"] for found in running_server.get("experiments/")["results"]]
    assert "Several experiments run. Give the id of one" in nnictl("stop", status=1)
    nnictl("stop", f"{first}*")
    running_server.wait_for_experiment(first, "STOPPED")
    running_server.wait_for_experiment(second, "RUNNING")

    nnictl("update", "concurrency", "--value", "1")  # the only one that runs
    nnictl("update", "trialnum", "--value", "40")
    nnictl("update", "duration", "--value", "3h")
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 2]}}')
    nnictl("update", "searchspace", "--filename", str(tmp_path / "space.json"))
    changed = running_server.get(f"experiments/{second}/")
    assert (changed["trial_concurrency"], changed["max_trial_number"], changed["max_duration"]) == (1, 40, 10_800)
    assert changed["search_space"]["x"]["_value"] == [0, 2]
    trial = running_server.wait_until(lambda: [each for each in json.loads(nnictl("trial", "ls"))
                                               if each["status"] == "RUNNING"])[0]["trialJobId"]
    assert "is being ended" in nnictl("trial", "kill", "--trial_id", trial)
    running_server.wait_until(lambda: running_server.get(f"trials/{trial}/")["status"] == "USER_CANCELED")
    nnictl("stop", "--all")
    running_server.wait_for_experiment(second, "STOPPED")
    assert "No experiment runs that would have to be stopped" in nnictl("stop", "--all")
    assert f"Experiment {first} continues" in nnictl("resume", first[:6])
    running_server.wait_for_experiment(first, "RUNNING")


@pytest.mark.slow
def test_the_server_that_create_starts_stays_and_a_saved_experiment_is_loaded(config: Path, tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "XDG_", "DJANGO_"))}

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-m", "nniweb", *words], cwd=ROOT, text=True, timeout=300, check=False,
                              capture_output=True, env={**kept, "NNIWEB_DATA": str(data)})
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command("nnictl", *arguments)

    def call_json(*arguments: str) -> str:
        return command("experiments", *arguments, "--json").stdout

    def trials_of(identifier: str) -> list[object]:
        found = json.loads(call_json("trials", identifier))
        metrics = json.loads(call_json("metrics", identifier))
        return [[(trial["sequence_id"], trial["status"], trial["parameters"], trial["final_value"]) for trial in found],
                [(metric["sequence_id"], metric["kind"], metric["value"]) for metric in metrics]]

    try:
        created = call("create", "-c", str(config), "-p", str(port), "-f")
        assert "DONE  3/3 ended" in created.stdout
        assert "Note: The trials run in a copy of the code: " in created.stdout  # its folder is none that it may name
        assert f"A server was started at http://127.0.0.1:{port}" in created.stderr
        [pid] = [line.rpartition(" ")[2] for line in created.stderr.splitlines() if "The server stays." in line]
        assert "by our nnictl" in call("experiment", "list", "--all").stdout
        [here] = json.loads(call_json("list", "--all"))
        assert "was saved in" in call("experiment", "save", here["id"], "--path", str(tmp_path / "saved")).stdout
        package = tmp_path / "saved" / f"nni_experiment_{here['id']}.zip"
        with zipfile.ZipFile(package, "a") as archive:
            archive.writestr("code/more.py", "x = 1\n")  # NNI's have code
        loaded = call("experiment", "load", "-p", str(package), "-c", str(tmp_path)).stdout
        assert "Imported \"by our nnictl\", 3 trials" in loaded
        assert (tmp_path / "more.py").read_text() == "x = 1\n"
        [copied] = [each for each in json.loads(call_json("list", "--all")) if each["id"] != here["id"]]
        assert trials_of(copied["id"]) == trials_of(here["id"])
        assert ServerLock(data).is_held()
        os.kill(int(pid), signal.SIGINT)
    finally:
        end_processes(processes_of([str(tmp_path)]))
