"""A backup is taken while the server runs; a restored installation goes on where the backup was taken."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

SECRET = "the cluster's password"
READ_SECRET = """
from nniweb.experiments.clusters.editing import settings_secrets
from nniweb.experiments.models import Cluster
from trainingservice.platforms import load_platform
cluster = Cluster.objects.get(name="farm")
print(sorted(settings_secrets(cluster, load_platform(cluster.platform)).values()))
"""


def trials_of(server: RunningServer, experiment: str) -> list[Any]:
    return server.get_all(f"experiments/{experiment}/trials/")


def numbers(server: RunningServer, trial: Any) -> list[float]:
    return [row["number"] for row in server.get_all(f"trials/{trial['id']}/metrics/", kind="PERIODICAL")]


def wait_for_steps(server: RunningServer, experiment: str, *counts: int) -> None:
    server.wait_until(lambda: [trial["intermediate_count"] for trial in trials_of(server, experiment)] == list(counts),
                      what=f"{counts} intermediate results")


@pytest.mark.slow
def test_what_cannot_be_restored_is_refused_with_a_sentence_and_changes_nothing(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server().start()
    backup = tmp_path / "backup.tar.gz"
    server.manage("backup", str(backup))
    while_it_runs = server.manage("restore", "--force", str(backup), check=False)
    assert (while_it_runs.returncode, "in use by another server" in while_it_runs.stderr) == (1, True)
    server.stop()
    before = sorted(str(path) for path in server.data_folder.rglob("*"))
    used = server.manage("restore", str(backup), check=False)
    assert (used.returncode, "use --force" in used.stderr) == (1, True)
    (tmp_path / "part.tar.gz").write_bytes(backup.read_bytes()[:-100])
    part = server.manage("restore", "--force", str(tmp_path / "part.tar.gz"), check=False)
    assert (part.returncode, "only a part" in part.stderr) == (1, True)
    for done in (while_it_runs, used, part):
        assert "Traceback" not in done.stderr
    assert sorted(str(path) for path in server.data_folder.rglob("*")) == before
    assert [path for path in tmp_path.iterdir() if "before-restore" in path.name] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_restored_installation_goes_on_with_its_trials_its_secrets_and_its_people(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server().start()
    server.post("clusters/", {"name": "farm", "platform": "remote", "settings": {"machineList": [
        {"host": "127.0.0.1", "port": 9, "user": "nobody", "password": SECRET}]}})
    leds = LedTrials(server, tmp_path / "led", trialConcurrency=2, maxTrialNumber=2)
    leds.tell(0, "metric 0.1")
    leds.tell(1, "metric 0.2")
    wait_for_steps(server, leds.experiment, 1, 1)
    said = server.manage("backup", str(tmp_path / "backup.tar.gz"))
    assert "Written to" in said.stdout

    # what happens now is in no backup: one trial goes on, the other one ends and its keeper with it
    leds.tell(0, "metric 0.3", "final 0.4", "end")
    leds.tell(1, "metric 0.5")
    wait_for_steps(server, leds.experiment, 2, 2)
    server.wait_until(lambda: trials_of(server, leds.experiment)[0]["status"] == "SUCCEEDED")
    server.stop()
    said = server.manage("restore", "--force", str(tmp_path / "backup.tar.gz"))
    [aside] = [path for path in tmp_path.iterdir() if "before-restore" in path.name]
    assert str(aside) in said.stdout
    assert (aside / "nniweb.sqlite3").exists()
    [(count,)] = sqlite3.connect(server.data_folder / "nniweb.sqlite3").execute(
        "SELECT COUNT(*) FROM experiments_metric")
    assert count == 2, "as it was when the backup was taken"

    server.start()
    assert requests.get(f"{server.url}/api/v1/experiments/", headers={"Authorization": f"Token {server.token}"},
                        timeout=90).status_code == 200, "a token from before still opens"
    assert SECRET in server.manage("shell", "-c", READ_SECRET).stdout
    # both keepers have delivered all this before, to the server that is no more: they do it once more
    wait_for_steps(server, leds.experiment, 2, 2)
    leds.tell(1, "metric 0.6", "final 0.7", "end")
    server.wait_for_experiment(leds.experiment)
    first, second = trials_of(server, leds.experiment)
    assert [first["status"], second["status"]] == ["SUCCEEDED", "SUCCEEDED"]
    assert [numbers(server, first), numbers(server, second)] == [[0.1, 0.3], [0.2, 0.5, 0.6]]
    assert [first["final_number"], second["final_number"]] == [0.4, 0.7]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_keepers_find_an_installation_that_was_restored_into_another_folder_at_the_same_address(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server().start()
    leds = LedTrials(server, tmp_path / "led", maxTrialNumber=1)
    leds.tell(0, "metric 0.1")
    wait_for_steps(server, leds.experiment, 1)
    server.manage("backup", str(tmp_path / "backup.tar.gz"))
    server.kill()
    leds.tell(0, "metric 0.2")

    other = make_server(name="another folder")
    other.port = server.port
    other.manage("restore", str(tmp_path / "backup.tar.gz"))
    other.start()
    wait_for_steps(other, leds.experiment, 2)
    leds.tell(0, "final 0.3", "end")
    other.wait_for_experiment(leds.experiment)
    [trial] = trials_of(other, leds.experiment)
    assert (trial["status"], trial["final_number"], numbers(other, trial)) == ("SUCCEEDED", 0.3, [0.1, 0.2])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_keys_the_secrets_that_must_be_entered_anew_are_named_and_open_once_the_old_keys_are_back(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server().start()
    server.post("clusters/", {"name": "farm", "platform": "remote", "settings": {"machineList": [
        {"host": "127.0.0.1", "port": 9, "user": "nobody", "password": SECRET}]}})
    server.manage("backup", str(tmp_path / "usual.tar.gz"))
    server.manage("backup", "--with-keys", str(tmp_path / "all.tar.gz"))
    server.stop()
    keys = server.data_folder / "keys"

    other = make_server(name="another folder")
    said = other.manage("restore", str(tmp_path / "usual.tar.gz")).stdout
    assert "enter these secrets again: cluster farm: " in said
    assert SECRET not in said
    theirs = other.data_folder / "keys"
    assert (theirs / "installation").read_text() == (keys / "installation").read_text(), "keepers obey no other name"
    assert (theirs / "secret_key").read_text() != (keys / "secret_key").read_text()
    assert SECRET not in other.manage("shell", "-c", READ_SECRET, check=False).stdout
    (theirs / "seal_keys").write_text((keys / "seal_keys").read_text())
    assert SECRET in other.manage("shell", "-c", READ_SECRET).stdout

    third = make_server(name="a third folder")
    said = third.manage("restore", str(tmp_path / "all.tar.gz")).stdout
    assert "contains no keys" not in said
    assert SECRET in third.manage("shell", "-c", READ_SECRET).stdout
