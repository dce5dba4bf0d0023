"""Two webs and two workers on PostgreSQL and Redis: each cluster is driven by exactly one, and any of them may go."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import free_port
from tests.end_to_end.scaled_out.several_processes import Installation, WebProcess, WorkerProcess, is_traceback_free
from tests.end_to_end.scaled_out.watched_page import watched_experiment

TRIALS = 2


def launch(web: WebProcess, folder: Path, go: Path) -> WitnessedExperiment:
    """An experiment on a cluster of its own that any worker may drive; its trials report for a while, and wait."""
    return WitnessedExperiment(web, folder, trials=TRIALS, concurrency=TRIALS, steps=60, pause=0.1, go=go, platform={
        "platform": "scripted_anywhere", "folder": str(folder / "cluster")}).launch()


@pytest.mark.timeout(300)
@pytest.mark.kill_table("TERM of one of two workers, then kill -9 of the other (PostgreSQL, Redis, two webs)")
@pytest.mark.slow
def test_clusters_spread_and_are_handed_over_and_taken_over_while_trials_run(installation: Installation,
                                                                            tmp_path: Path, seed: int) -> None:
    web, other_web = installation.web("web1").start(), installation.web("web2").start()
    port, token = free_port(), {"NNIWEB_METRICS_TOKEN": "scrape-me"}
    one = installation.worker("worker1", NNIWEB_WORKER_PORT=str(port), **token).start()
    two = installation.worker("worker2").start()
    web.wait_until(lambda: len(installation.rows("SELECT id FROM experiments_worker")) == 2, what="both are there")
    ids = {installation.worker_id(one), installation.worker_id(two)}
    # one after the other: who drives fewer takes the next one, unless it is too busy for some seconds
    launched: list[WitnessedExperiment] = []
    go = tmp_path / "go"
    while len(launched) < 2 or (set(installation.holders().values()) != ids and len(launched) < 5):
        where = (web, other_web)[len(launched) % 2]
        launched.append(launch(where, tmp_path / f"experiment{len(launched)}", go))
        web.wait_until(lambda: len(installation.holders()) == len(launched), what="somebody drives it")
    assert set(installation.holders().values()) == ids, "each drives some"

    def all_driven_by(worker: WorkerProcess) -> bool:
        return list(installation.holders().values()) == [installation.worker_id(worker)] * len(launched)

    for experiment in launched:
        # keepers report to the first web, the page is open at the second
        with watched_experiment(other_web, experiment.id) as page:
            page.hear_until(lambda page=page: len(page.trials) == TRIALS and all(
                trial["intermediate_count"] for trial in page.trials.values()))

    # what a worker says of itself, at a port of its own
    assert requests.get(f"http://127.0.0.1:{port}/readyz", timeout=60).json()["ready"]
    figures = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60,
                           headers={"Authorization": "Bearer scrape-me"}).text
    driven = [line for line in figures.splitlines() if line.startswith("nniweb_cluster_driven{") and
              line.endswith(" 1.0")]
    its = [name for name, holder in installation.holders().items() if holder == installation.worker_id(one)]
    assert len(driven) == len(its) > 0
    for name in its:
        assert f'nniweb_round_seconds_count{{cluster="{name}"}}' in figures

    # a clean stop hands everything over, and not because the lease ran out
    gone = installation.worker_id(one)
    assert one.stop() == 0
    web.wait_until(lambda: all_driven_by(two), what="the other one drives all")
    assert installation.rows("SELECT id FROM experiments_worker WHERE id = %s", gone) == []

    # one that is killed hands nothing over: it is replaced
    one.start()
    killed = installation.worker_id(two)
    two.kill()
    installation.wait_until_taken_over(one)
    assert killed not in installation.holders().values()
    go.touch()
    for experiment in launched:
        experiment.nothing_is_lost()
    for process in (web, other_web, one, two):
        assert is_traceback_free(process.log()), process.log()
