"""NNI's own ``Experiment`` and ``nnictl``: ``import nniweb.nni_experiment``, or a variable, replaces their process."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.end_to_end.running_server import ROOT, RunningServer, free_port
from tests.fakes.official_nni import official_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TRIAL = """
import nni
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x / 2)
nni.report_final_result(x)
"""
BEGIN = """
import json, sys, time
import nniweb.nni_experiment
from nni.experiment import Experiment

PORT = int(sys.argv[1])
experiment = Experiment("local")
experiment.config.trial_command = "python3 trial.py"
experiment.config.trial_code_directory = "."
experiment.config.search_space = {"x": {"_type": "uniform", "_value": [0, 1]}}
experiment.config.tuner.name = "TPE"
experiment.config.tuner.class_args = {"optimize_mode": "maximize"}
experiment.config.max_trial_number = 3
experiment.config.trial_concurrency = 2
experiment.config.experiment_name = "by its own class"
"""
#: All that a script does with an experiment that runs to its end.
TO_THE_END = BEGIN + """
experiment.run(PORT)
jobs = experiment.list_trial_jobs()
first = experiment.get_trial_job(jobs[0].trialJobId)
found = {
    "id": experiment.id, "status": experiment.get_status(), "port": experiment.port,
    "statistics": experiment.get_job_statistics(), "values": [job.finalMetricData[0].data for job in jobs],
    "parameters": [job.hyperParameters[0].parameters["x"] for job in jobs], "first": first.trialJobId,
    "metrics": sorted(experiment.get_job_metrics()) == sorted(job.trialJobId for job in jobs),
    "exported": [[result.parameter["x"], result.value] for result in experiment.export_data()],
    "profile": experiment.get_experiment_profile()["id"],
    "metadata": experiment.get_experiment_metadata(experiment.id)["port"],
    "connected": Experiment.connect(PORT).id,
}
experiment.stop()
print(json.dumps(found))
"""
#: Starts, changes, stops.
IN_BETWEEN = BEGIN + """
experiment.config.trial_command = "sleep 600"
experiment.start(PORT)
while not experiment.list_trial_jobs() or experiment.list_trial_jobs()[0].status != "RUNNING":
    time.sleep(0.2)
experiment.update_trial_concurrency(1)
experiment.update_max_trial_number(50)
experiment.update_max_experiment_duration("3h")
experiment.update_search_space({"x": {"_type": "uniform", "_value": [0, 2]}})
killed = experiment.list_trial_jobs()[0].trialJobId
if hasattr(experiment, "kill_trial_job"):
    experiment.kill_trial_job(killed)
else:  # NNI 2
    from nni.experiment import rest
    rest.delete(PORT, f"/trial-jobs/{killed}")
while experiment.get_trial_job(killed).status != "USER_CANCELED":
    time.sleep(0.2)
found = {"id": experiment.id, "status": experiment.get_status()}
experiment.stop()
print(json.dumps(found))
"""
#: NNI 3: an instance goes on; NNI 2: a static method.
AGAIN = """
import json, sys
import nni, nniweb.nni_experiment
from nni.experiment import Experiment

port, verb, identifier = int(sys.argv[1]), sys.argv[2], sys.argv[3]
is_new = nni.__version__.startswith("3")
if verb == "resume":
    experiment = Experiment(None, identifier) if is_new else None
    if is_new:
        experiment.resume(port, wait_completion=False)
    else:
        experiment = Experiment.resume(identifier, port, wait_completion=False)
else:
    experiment = Experiment(None, identifier).view(port, non_blocking=True) if is_new else Experiment.view(
        identifier, port, non_blocking=True)
print(json.dumps({"status": experiment.get_status(), "trials": len(experiment.list_trial_jobs()),
                  "concurrency": experiment.get_experiment_profile()["params"]["trialConcurrency"]}))
experiment.stop()
"""


class Programs:
    """Programs with the official package, with a home folder of their own, and one server for all of them."""

    def __init__(self, version: str, server: RunningServer, folder: Path) -> None:
        self.python, self.server, self.folder = official_python(version), server, folder
        self.folder.mkdir()
        (folder / "trial.py").write_text(TRIAL)
        self.home = folder / "home"
        self.home.mkdir()

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "NNI_", "XDG_"))}
        return {**kept, "HOME": str(self.home), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "NO_PROXY": "*",
                "NNIWEB_SERVER": self.server.url, "NNIWEB_TOKEN": self.server.token, **more}

    def run(self, *command: str, **more: str) -> str:
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=240, check=False, env=self.environment(**more))
        assert done.returncode == 0, done.stdout
        return done.stdout

    def code(self, text: str, *arguments: str) -> Any:
        """What the program printed as JSON."""
        said = self.run(str(self.python), "-c", text, *arguments)
        found = [line for line in said.splitlines() if line.startswith("{")]
        assert found, said
        return json.loads(found[-1])

    def registry(self) -> Any:
        return json.loads((self.home / "nni-experiments" / ".experiment").read_text())


@pytest.fixture(params=["3.0", "2.10.1 experiment"])
def programs(request: pytest.FixtureRequest, running_server: RunningServer, tmp_path: Path) -> Programs:
    return Programs(request.param, running_server, tmp_path / "work")


def test_the_official_class_runs_an_experiment_to_its_end(programs: Programs) -> None:
    port = free_port()
    found = programs.code(TO_THE_END, str(port))
    assert (found["status"], found["port"], found["metadata"]) == ("DONE", port, port)
    assert found["profile"] == found["id"] == found["connected"]
    assert found["statistics"] == [{"trialJobStatus": "SUCCEEDED", "trialJobNumber": 3}]
    assert found["values"] == found["parameters"]
    assert found["exported"] == [[value, value] for value in found["values"]]
    assert found["metrics"]
    [here] = programs.server.get("experiments/")["results"]
    assert (here["name"], here["status"], here["progress"]["best_value"]) == (
        "by its own class", "DONE", max(found["values"]))
    assert found["first"] == programs.server.get_all(f"experiments/{here['id']}/trials/")[0]["id"]
    assert programs.server.is_alive
    programs.server.wait_until(lambda: programs.registry()[found["id"]]["status"] == "STOPPED")


def test_it_starts_changes_kills_stops_resumes_and_views(programs: Programs) -> None:
    found = programs.code(IN_BETWEEN, str(free_port()))
    assert found["status"] == "RUNNING"
    [here] = programs.server.get("experiments/")["results"]
    here = programs.server.wait_for_experiment(here["id"], "STOPPED")
    assert (here["trial_concurrency"], here["max_trial_number"], here["max_duration"]) == (1, 50, 10_800)
    assert here["search_space"]["x"]["_value"] == [0, 2]

    viewed = programs.code(AGAIN, str(free_port()), "view", found["id"])
    assert (viewed["status"], viewed["concurrency"]) == ("STOPPED", 1)
    assert viewed["trials"] >= 1
    again = programs.code(AGAIN, str(free_port()), "resume", found["id"])
    assert again["status"] in ("INITIALIZED", "RUNNING")
    programs.server.wait_for_experiment(here["id"], "STOPPED")  # by the program's stop()


def test_a_refused_config_is_an_error_with_our_words(programs: Programs) -> None:
    wrong = BEGIN + """
experiment.config.assessor.name = "Medianstop"
experiment.config.assessor.class_args = {"nonsense": 1}
try:
    experiment.start(PORT)
except Exception as error:
    print(json.dumps({"error": type(error).__name__}))
"""
    said = programs.run(str(programs.python), "-c", wrong, str(free_port()))
    assert '{"error": "HTTPError"}' in said
    assert "nonsense" in said
    assert programs.server.get("experiments/")["results"] == []


def test_its_nnictl_creates_stops_resumes_and_lists_with_a_variable_alone(programs: Programs) -> None:
    folder = programs.run(str(programs.python), "-m", "nniweb.nni_experiment").strip()
    variable = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    nnictl = str(programs.python.with_name("nnictl"))
    (programs.folder / "config.yml").write_text(
        "experimentName: by nnictl\ntrialCommand: sleep 600\ntrialConcurrency: 1\nmaxTrialNumber: 20\n"
        "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntuner: {name: TPE, classArgs: {optimize_mode: maximize}}\n"
        "trainingService: {platform: local}\n")
    port = free_port()
    programs.run(nnictl, "create", "--config", "config.yml", "--port", str(port), **variable)
    [here] = programs.server.get("experiments/")["results"]
    assert here["name"] == "by nnictl"
    identifier = next(iter(programs.registry()))
    try:
        programs.server.wait_for_experiment(here["id"], "RUNNING")
        assert identifier in programs.run(nnictl, "experiment", "list", **variable)
        page = requests.get(f"http://127.0.0.1:{port}/", allow_redirects=False, timeout=30)
        assert (page.status_code, page.headers["Location"]) == (302, f"{programs.server.url}/experiments/{here['id']}/")
        for refused in ({"Origin": "https://elsewhere.example"}, {"Host": "elsewhere.example:80"}):
            answer = requests.get(f"http://127.0.0.1:{port}/api/v1/nni/check-status", headers=refused, timeout=30)
            assert answer.status_code == 403
        programs.run(nnictl, "stop", identifier, **variable)
        programs.server.wait_for_experiment(here["id"], "STOPPED")
        programs.server.wait_until(lambda: programs.registry()[identifier]["status"] == "STOPPED")
        programs.run(nnictl, "resume", identifier, "--port", str(free_port()), **variable)
        programs.server.wait_for_experiment(here["id"], "RUNNING")
    finally:
        os.kill(programs.registry()[identifier]["pid"], signal.SIGTERM)
    programs.server.wait_for_experiment(here["id"], "STOPPED")
    programs.server.wait_until(lambda: programs.registry()[identifier]["status"] == "STOPPED")
