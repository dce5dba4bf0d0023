"""The disk of a running server gets full and empty again: nothing acknowledged is lost, and it goes on by itself."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import requests

from nniweb.experiments.clusters.lease import LEASE_SECONDS
from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import RunningServer, sign_in_by_link
from trainingservice.testing.processes import processes_of


def fill(disk: Path) -> Path:
    """Take all the room there is."""
    full = disk / "something-else"
    with open(full, "wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                pass
    return full


def lease(server: RunningServer) -> tuple[str, int]:
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        [row] = database.execute("SELECT lease_holder, lease_epoch FROM experiments_cluster")
    return row


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.kill_table("the server's disk is full for longer than a lease")
def test_a_disk_that_was_full_for_longer_than_a_lease_costs_nothing(
        small_disk: Path, server_on_small_disk: RunningServer, tmp_path: Path, seed: int) -> None:
    server = server_on_small_disk.start()
    browser = requests.Session()
    link = server.wait_until(lambda: re.search(r"http://\S+/sign-in/\S+", server.log_tail()))
    sign_in_by_link(browser, link.group(0))
    go = tmp_path / "go"
    experiment = WitnessedExperiment(server, tmp_path / "experiment", trials=5, concurrency=3, steps=100, pause=0.1,
                                     go=go).launch()

    def steps() -> list[int]:
        return [row["intermediate_count"] for row in experiment.rows()]

    server.wait_until(lambda: len(steps()) == 3 and min(steps()) > 5)
    held = lease(server)

    full = fill(small_disk)
    server.wait_until(lambda: "The database does not accept writes at the moment" in browser.get(server.url).text)
    page = browser.get(f"{server.url}/experiments/{experiment.id}/")
    assert page.status_code == 200, "looking still works"
    assert "is full" in page.text
    assert "No worker is alive" not in browser.get(server.url).text.split('id="no-worker"')[0]
    refused_wish = server.request("POST", f"experiments/{experiment.id}/actions/pause/")
    assert (refused_wish.status_code, refused_wish.headers["Retry-After"]) == (503, "5")
    assert "does not accept writes" in refused_wish.json()["errors"][0]["message"]
    stored = steps()

    def log_says(text: str) -> int:
        return server.log_file.read_text().count(text)

    refused = log_says("a lease could not be renewed")
    # the lease is written each 5 s: so long that anybody could have taken it, had it not been by epoch
    server.wait_until(lambda: log_says("a lease could not be renewed") >= refused + LEASE_SECONDS / 5 + 1, 90)
    assert steps() == stored
    assert [row["status"] for row in experiment.rows()] == ["RUNNING"] * 3, "nothing new was started"
    server.wait_until(lambda: experiment.reported() == 300, what="the trials go on, and their keepers keep it")
    go.touch()
    server.wait_until(lambda: not processes_of([str(experiment.witnesses)]), what="they end")

    full.unlink()
    experiment.nothing_is_lost()
    assert lease(server) == held, "the same holder in the same epoch"
    server.wait_until(lambda: "The database does not accept writes" not in browser.get(server.url).text)
    server.stop()
    with closing(sqlite3.connect(server.data_folder / "nniweb.sqlite3")) as database:
        [(verdict,)] = database.execute("PRAGMA integrity_check")
    assert verdict == "ok"
