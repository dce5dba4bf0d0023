"""A service without keepers, whose listener is the only way home, on a server that is killed again and again.

What its trials wrote down themselves is held against what the server stored.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.end_to_end.kill_table.dying_server import LISTENER_POINTS
from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import ROOT, RunningServer

PLATFORMS = ("small=my_platform.small_service:SmallTrainingService,"
             "returning=tests.end_to_end.platforms.returning_service:ReturningService")


@pytest.fixture
def server(make_server: Callable[..., RunningServer]) -> RunningServer:
    server: RunningServer = make_server({
        "NNIWEB_EXTRA_PLATFORMS": PLATFORMS, "PYTHONPATH": f"{ROOT}:{ROOT / 'examples' / 'my_platform'}"})
    return server.start()


def launched(server: RunningServer, folder: Path, platform: str, **more: Any) -> WitnessedExperiment:
    return WitnessedExperiment(server, folder, platform={"platform": platform}, **more).launch()


def killed_and_back(server: RunningServer) -> None:
    server.kill()
    server.start()


@pytest.mark.slow
def test_metrics_and_ends_are_there_once_after_kills_while_trials_run_and_right_after_a_final_result(
        server: RunningServer, tmp_path: Path) -> None:
    experiment = launched(server, tmp_path, "returning", trials=4, concurrency=2, steps=30, pause=0.1)
    server.wait_until(lambda: len(experiment.running()) == 2 and experiment.reported() > 3, what="between two metrics")
    killed_and_back(server)
    server.wait_until(lambda: any(row["final_number"] is not None for row in experiment.rows()), what="a final result")
    killed_and_back(server)
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", list(LISTENER_POINTS))
def test_a_server_that_dies_at_a_point_loses_no_metric_of_a_service(server: RunningServer, tmp_path: Path, point: str
                                                                    ) -> None:
    random = Random(point)
    experiment = launched(server, tmp_path, "returning", trials=24, concurrency=4, steps=20, pause=0.02)
    server.kill()
    # how often it comes there in one life at least
    most = 1 if "taken over" in point else 60 if "emits" in point else 3
    for _ in range(3):
        server.start(program=("-m", "tests.end_to_end.kill_table.dying_server", point, str(random.randint(1, most))),
                     wait=False)
        assert server.wait_for_end(120) == -signal.SIGKILL, server.log_tail()
    server.start()
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_that_is_killed_at_random_times_in_a_burst_loses_no_metric_of_a_service(
        server: RunningServer, tmp_path: Path) -> None:
    experiment, random = launched(server, tmp_path, "returning", trials=6, concurrency=3, steps=3000, pause=0.004), \
        Random(1)
    for _ in range(4):
        more = experiment.reported() + random.randint(100, 3000)
        server.wait_until(lambda: experiment.reported() > more, what="trials report")  # noqa: B023
        killed_and_back(server)
    experiment.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_search_of_a_service_whose_jobs_end_with_it_goes_on_and_doubles_nothing(
        server: RunningServer, tmp_path: Path) -> None:
    experiment = launched(server, tmp_path, "small", trials=8, concurrency=2, steps=20, pause=0.05)
    lost: set[str] = set()
    for _ in range(2):
        running = server.wait_until(lambda: len(rows := experiment.running()) == 2 and all(
            row["intermediate_count"] for row in rows) and rows, what="two trials report")
        lost |= {row["id"] for row in running}
        killed_and_back(server)
    server.wait_for_experiment(experiment.id, patience=120)
    rows = experiment.rows()
    assert [row["sequence_id"] for row in rows] == list(range(8))
    for row in rows:
        assert row["status"] == ("FAILED" if row["id"] in lost else "SUCCEEDED"), row
        assert row["reason"]["code"] == "end_unknown" if row["id"] in lost else row["final_number"] is not None, row
        metrics = server.get_all(f"trials/{row['id']}/metrics/")
        stored = [metric["number"] for metric in metrics if metric["kind"] == "PERIODICAL"]
        reported = [line["value"] for line in experiment.witness(row["id"]) if line["what"] == "reported"]
        assert 0 < len(stored) <= len(reported), "what was stored before its server died"
        assert stored == (reported[:len(stored)] if row["id"] in lost else reported), "in order and none twice"
