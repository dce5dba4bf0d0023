"""A real server is killed in the middle of removing things: nothing is left behind, and nothing else goes."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.simulated_trials import SimulatedTrials, with_output_of_long_ago

TRIALS, METRICS = 1500, 10
PATIENCE = 120.0


@pytest.fixture
def count(running_server: RunningServer) -> Callable[[str], int]:
    """Asks the database beside the server: ``count("experiments_trial WHERE ...")``."""
    database = Path(running_server.environment["NNIWEB_DATA"]) / "nniweb.sqlite3"

    def count(what: str) -> int:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=90)) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])

    return count


@pytest.mark.slow
def test_a_server_killed_while_it_removes_goes_on_and_removes_nothing_else(
        running_server: RunningServer, count: Callable[[str], int]) -> None:
    server = running_server
    old = SimulatedTrials(server, finished=TRIALS, curve=METRICS).experiment
    with_output_of_long_ago(server, old)
    other = SimulatedTrials(server, finished=20, curve=METRICS)
    server.patch(f"experiments/{old}/", {"retention": {"output": 30, "readings": 30}})
    for marked in ("output", "readings"):
        removed = f"experiments_trial WHERE {marked}_removed_at > '1971'"
        server.wait_until(lambda removed=removed: count(removed), PATIENCE)
        server.kill()
        # a trial that is said to have nothing left has nothing left
        assert not count("experiments_trialoutput o JOIN experiments_attempt a ON a.id = o.attempt_id"
                         " JOIN experiments_trial t ON t.id = a.trial_id WHERE t.output_removed_at IS NOT NULL")
        assert not count("experiments_metric m JOIN experiments_attempt a ON a.id = m.attempt_id"
                         " JOIN experiments_trial t ON t.id = a.trial_id"
                         " WHERE m.kind = 'PERIODICAL' AND t.readings_removed_at IS NOT NULL")
        server.start()
    server.wait_until(lambda: not count("experiments_trialoutput"), PATIENCE)
    server.wait_until(lambda: not count("experiments_resourcereading"), PATIENCE)
    server.wait_until(lambda: count("experiments_metric") == 20 * METRICS, PATIENCE)
    document = server.get(f"experiments/{old}/")
    assert document["progress"]["total"] == TRIALS
    assert document["progress"]["best_value"] is not None

    assert server.request("DELETE", f"experiments/{old}/").status_code == 204
    server.wait_until(lambda: count("experiments_trial") < TRIALS + 20, PATIENCE)
    server.kill()
    server.start()
    server.wait_until(lambda: count("experiments_trial") == 20, PATIENCE)
    server.wait_until(lambda: count("experiments_experiment WHERE rows_removed_at IS NOT NULL") == 1, PATIENCE)
    assert count("experiments_attempt") == count("experiments_trialparameters") == 20
    assert server.get(f"experiments/{other.experiment}/")["progress"]["total"] == 20
