"""Starting, stopping and killing the server: trials neither notice nor get lost."""

import json
import re
import socket
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from tests.end_to_end.running_server import RunningServer, sign_in_by_link
from trialkeeper import contract

SLOW_TRIAL = """\
import pathlib, time, nni
x = nni.get_next_parameter()["x"]
pathlib.Path("runs").mkdir(exist_ok=True)
with open(f"runs/{nni.get_trial_id()}", "a") as file:
    file.write("run\\n")
for step in range(20):
    nni.report_intermediate_result(x + step)
    time.sleep(0.25)
    while step == 10 and pathlib.Path("wait").exists():
        time.sleep(0.05)
nni.report_final_result(x)
"""


def launch_slow(server: RunningServer, folder: Path, **changes: object) -> str:
    (folder / "trial.py").write_text(SLOW_TRIAL)
    return server.launch({
        "trialCommand": "python3 trial.py", "trialCodeDirectory": str(folder), "trialConcurrency": 4,
        "maxTrialNumber": 6, "tuner": {"name": "Random", "classArgs": {"seed": 1}},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trainingService": {"platform": "local"},
        **changes}, folder)


def running(server: RunningServer, experiment: str) -> list[dict[str, object]]:
    return server.get(f"experiments/{experiment}/trials/", status="RUNNING")["results"]


@pytest.mark.parametrize("how", [pytest.param("stop", marks=pytest.mark.slow), "kill"])
def test_running_trials_are_found_again_and_nothing_is_lost_or_doubled(running_server: RunningServer, tmp_path: Path,
                                                                       how: str) -> None:
    server = running_server
    code = tmp_path / "code"
    code.mkdir()
    (code / "wait").touch()  # none ends before the server is gone
    experiment = launch_slow(server, code)
    before = server.wait_until(lambda: len(found := running(server, experiment)) == 4 and found)
    getattr(server, how)()
    assert any("trial.py" in str(process) for process in server.processes()), "trials go on"
    (code / "wait").unlink()
    server.start()
    server.wait_for_experiment(experiment)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * 6
    assert {trial["id"] for trial in before} <= {trial["id"] for trial in trials}
    for trial in trials:
        assert (code / "runs" / trial["id"]).read_text() == "run\n", "no trial ran twice"
        rows = server.get_all(f"trials/{trial['id']}/metrics/", kind="PERIODICAL")
        x = trial["parameters"]["x"]
        assert [row["number"] for row in rows] == pytest.approx([x + step for step in range(20)])
        assert trial["final_number"] == pytest.approx(x)


def test_trials_that_end_while_the_server_is_away_report_when_it_is_back_on_another_port(
        running_server: RunningServer, tmp_path: Path) -> None:
    from tests.end_to_end.running_server import free_port

    server = running_server
    code = tmp_path / "code"
    code.mkdir()
    experiment = launch_slow(server, code, maxTrialNumber=2, trialConcurrency=2)
    server.wait_until(lambda: len(running(server, experiment)) == 2)
    server.stop()
    server.wait_until(lambda: not any("trial.py" in str(process) for process in server.processes()), 30)
    server.port = free_port()
    server.start()
    server.wait_for_experiment(experiment)
    counts = [trial["intermediate_count"] for trial in server.get_all(f"experiments/{experiment}/trials/")]
    assert counts == [20, 20]


def test_the_printed_link_signs_in_once(running_server: RunningServer) -> None:
    link = running_server.wait_until(lambda: re.search(r"http://\S+/sign-in/\S+", running_server.log_tail())).group(0)
    session = requests.Session()
    assert session.get(link).url == link, "opening it uses nothing up"
    page = sign_in_by_link(session, link)
    assert (page.status_code, page.url) == (200, f"{running_server.url}/")
    assert "Experiments" in page.text
    assert requests.get(link).status_code == 410, "it is used up"
    anonymous = requests.get(f"{running_server.url}/")
    assert "/sign-in/" in anonymous.url


def test_a_taken_port_gets_a_sentence(make_server) -> None:
    server = make_server()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", server.port))
        taken.listen()
        done = server.manage("serve", check=False)
    assert done.returncode == 1
    assert f"Port {server.port}" in done.stderr
    assert "NNIWEB_PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_locked_data_folder_gets_a_sentence(running_server: RunningServer) -> None:
    done = running_server.manage("serve", "--port", "1", check=False)
    assert done.returncode == 1
    assert "in use by another server" in done.stderr
    assert running_server.url in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [("token", "admin"), ("experiments", "list"), ("launch", "config.yml")])
def test_commands_on_a_data_folder_that_was_never_served_say_what_to_do(make_server, command: tuple[str, ...]) -> None:
    done = make_server().manage(*command, check=False)
    assert done.returncode == 1
    assert "make run" in done.stderr
    assert "NNIWEB_DATA" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_data_folder_and_its_keys_are_private(running_server: RunningServer) -> None:
    assert running_server.data_folder.stat().st_mode & 0o777 == 0o700
    for key in (running_server.data_folder / "keys").iterdir():
        assert key.stat().st_mode & 0o777 == 0o600


def secrets_of(server: RunningServer) -> set[str]:
    """What lies in the server's keys, and the tokens that its keepers have in their files."""
    keys = {line for key in (server.data_folder / "keys").iterdir() if "installation" not in key.name
            for line in key.read_text().split() if len(line) > 20}
    kept = [json.loads(file.read_text()) for file in server.data_folder.rglob(contract.ACCESS_FILE)]
    return keys | {access["token"] for access in kept if access["token"]}


def what_processes_show(server: RunningServer) -> dict[int, str]:
    """Command lines of all that runs for the installation, and the environment of the trials."""
    shown = {}
    for process in server.processes():
        with suppress(OSError):  # it has ended
            folder = Path(f"/proc/{process.pid}")
            shown[process.pid] = (folder / "cmdline").read_text()
            if "trial.py" in shown[process.pid]:
                shown[process.pid] += (folder / "environ").read_text()
    return shown


def test_strangers_at_the_keepers_door_get_nothing(running_server: RunningServer, tmp_path: Path) -> None:
    server = running_server
    (tmp_path / "wait").touch()  # it does not end while strangers knock
    code = tmp_path / "code"
    code.mkdir()
    experiment = launch_slow(server, code, maxTrialNumber=1)
    [trial] = server.wait_until(lambda: running(server, experiment))
    said, secrets = what_processes_show(server), secrets_of(server)
    assert len(secrets) >= 3, "two keys of the server, and the attempt's token"
    assert len(said) >= 3, "the server, the agent, the trial"
    assert not [secret for secret in secrets for text in said.values() if secret in text], "ps shows it to everybody"
    door = f"{server.url}/api/trialkeeper/v1/trials/{trial['id']}/reports"
    report = {"keeper": {"version": 1, "journal_id": "evil"}, "entries": []}
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Token {server.token}"}):
        assert requests.post(door, json=report, headers=headers).status_code == 401
    oversized = requests.post(door, data=b"x" * 5_000_000, headers={"Authorization": "Bearer wrong"})
    assert oversized.status_code in (401, 413)
    assert [row["id"] for row in running(server, experiment)] == [trial["id"]], "it was not disturbed"
    (tmp_path / "wait").unlink()
    server.wait_for_experiment(experiment)
