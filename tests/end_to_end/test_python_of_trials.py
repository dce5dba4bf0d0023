"""Which Python the trials of a real server find: that of the shell that launches, and that of the server's start."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import requests

from tests.end_to_end.running_server import ANSWER_PATIENCE, RunningServer, sign_in_by_link
from tests.fakes.python_environments import make_environment, shell_with

CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 train.py
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
trainingService: {platform: local}
"""
TRIAL = """\
import nni
import mylib
nni.get_next_parameter()
nni.report_final_result(1 if mylib.name == "mylib" else 0)
"""
#: Ends the trial of this number when its file is there.
WAITS = """\
import time
from pathlib import Path
number = nni.get_sequence_id()
Path(f"began{number}").touch()
while not Path(f"go{number}").exists():
    time.sleep(0.02)
"""
VERSION = ".".join(map(str, sys.version_info[:3]))


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    return make_environment(tmp_path / "env", "mylib")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(TRIAL)
    (folder / "config.yml").write_text(CONFIG)
    return folder / "config.yml"


@pytest.fixture
def bare(make_server) -> RunningServer:
    """Started as a service is: with the machine's own PATH."""
    return make_server({"PATH": "/usr/local/bin:/usr/bin:/bin"}).start()


def launched(server: RunningServer, config: Path, *options: str, env: dict[str, str] | None = None) -> str:
    out = server.manage("launch", str(config), *options, env=env).stdout
    return out.splitlines()[0].rpartition(" id ")[2]


def attempt_of(server: RunningServer, experiment: str) -> tuple[dict, dict]:
    [trial] = server.get_all(f"experiments/{experiment}/trials/")
    return trial, recorded(server, trial)


def recorded(server: RunningServer, trial: dict) -> dict:
    """The trial's last attempt, when the worker has recorded its submission: a short trial may end before that."""
    def submitted() -> dict | None:
        attempt = server.get_all(f"trials/{trial['id']}/attempts/")[-1]
        return attempt if attempt["submitted_at"] else None

    return server.wait_until(submitted, what="the submission is recorded")


@pytest.mark.slow
def test_trials_use_the_environment_that_is_active_where_launch_is_said_until_it_is_removed(
        bare: RunningServer, config: Path, environment: Path) -> None:
    folder = config.parent
    (folder / "train.py").write_text(TRIAL + WAITS)
    config.write_text(CONFIG.replace("maxTrialNumber: 1", "maxTrialNumber: 4"))
    experiment = launched(bare, config, env=shell_with(environment))

    def trial(number: int, status: str) -> dict:
        def reached() -> dict | None:
            found = bare.get_all(f"experiments/{experiment}/trials/")
            return next((each for each in found if (each["sequence_id"], each["status"]) == (number, status)), None)
        return bare.wait_until(reached, what=f"trial {number} is {status}")

    (folder / "go0").touch()
    first = trial(0, "SUCCEEDED")
    attempt = recorded(bare, first)
    assert (first["final_value"], attempt["interpreter"], attempt["interpreter_version"]) == (
        "1", f"{environment}/bin/python3", VERSION)
    with requests.Session() as browser:
        browser.trust_env = False
        sign_in_by_link(browser, bare.manage("sign-in-link", "admin").stdout.split()[-1])
        page = browser.get(f"{bare.url}/trials/{first['id']}/", timeout=ANSWER_PATIENCE).text
    assert f"Python: <code>{environment}/bin/python3</code> ({VERSION})" in page

    trial(1, "RUNNING")
    bare.kill()  # what was recorded outlives the server
    bare.start()
    (folder / "go1").touch()
    trial(1, "SUCCEEDED")
    trial(2, "RUNNING")
    bare.wait_until((folder / "began2").exists, what="trial 2 has imported its module")
    shutil.rmtree(environment)
    (folder / "go2").touch()
    trial(2, "SUCCEEDED")
    reason = trial(3, "FAILED")["reason"]
    assert (reason["code"], reason["named"]) == ("no_python", str(environment))


@pytest.mark.slow
def test_the_client_of_the_same_machine_brings_its_environment_too(
        bare: RunningServer, config: Path, environment: Path) -> None:
    experiment = launched(bare, config, "--server", bare.url,
                          env={**shell_with(environment), "NNIWEB_TOKEN": bare.token})
    bare.wait_for_experiment(experiment)
    trial, attempt = attempt_of(bare, experiment)
    assert (trial["final_value"], attempt["interpreter"]) == ("1", f"{environment}/bin/python3")


def test_what_is_launched_elsewhere_uses_the_environment_that_the_server_was_started_in(
        make_server, config: Path, environment: Path) -> None:
    server = make_server(shell_with(environment)).start()
    experiment = server.launch(CONFIG, config.parent)
    server.wait_for_experiment(experiment)
    trial, attempt = attempt_of(server, experiment)
    assert (trial["final_value"], attempt["interpreter"]) == ("1", f"{environment}/bin/python3")


@pytest.mark.slow
def test_the_packages_of_the_server_are_not_those_of_a_trial_unless_it_asks_for_them(
        bare: RunningServer, config: Path) -> None:
    (config.parent / "train.py").write_text(TRIAL.replace("import mylib", "import pydantic as mylib").replace(
        'mylib.name == "mylib"', "mylib"))
    config.write_text(CONFIG.replace("local}", "local, serverPython: true}"))
    experiment = launched(bare, config, env={"PATH": "/usr/bin:/bin"})
    bare.wait_for_experiment(experiment)
    trial, attempt = attempt_of(bare, experiment)
    assert trial["status"] == "SUCCEEDED"
    assert os.path.dirname(attempt["interpreter"]) == os.path.dirname(sys.executable)
