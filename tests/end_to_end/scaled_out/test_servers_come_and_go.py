"""PostgreSQL and Redis are killed in a burst of metrics and come back: nothing is lost, and all goes on by itself."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
import requests

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer
from tests.end_to_end.scaled_out.redis_server import RedisServer
from tests.end_to_end.scaled_out.several_processes import Installation, is_traceback_free

AWAY, BACK = "Redis cannot be reached", "Redis can be reached again"
#: How long PostgreSQL is away, in seconds; the longer time outlasts the leases.
AWAY_SECONDS = [
    pytest.param(2, id="for a moment", marks=[pytest.mark.slow, pytest.mark.kill_table(
        "kill -9 of PostgreSQL and of Redis, and their return after 2 s")]),
    pytest.param(30, id="for half a minute", marks=[pytest.mark.slow, pytest.mark.kill_table(
        "kill -9 of PostgreSQL and of Redis, and their return after 30 s")])]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("away", AWAY_SECONDS)
def test_nothing_is_lost_while_postgresql_and_redis_are_away(
        installation: Installation, postgresql: PostgresqlServer, redis: RedisServer, tmp_path: Path,
        away: float, seed: int) -> None:
    web, worker = installation.web("web").start(), installation.worker("worker").start()
    experiment = WitnessedExperiment(
        web, tmp_path / "experiment", trials=3, concurrency=2, steps=150, pause=0.01, go=tmp_path / "go",
        platform={"platform": "scripted_anywhere", "folder": str(tmp_path / "cluster")}).launch()
    some = Random(seed).randint(20, 200)
    web.wait_until(lambda: experiment.begun() == 2 and experiment.reported() >= some, what="two trials report")

    logged = {process.name: len(process.log()) for process in (web, worker)}
    postgresql.kill()
    redis.kill()
    # what comes now the keepers keep
    web.wait_until(lambda: experiment.reported() == 300, what="trials report into the outage")
    page = requests.get(f"{web.url}/", headers={"Cookie": f"sessionid={32 * 'a'}"}, timeout=60)
    assert page.status_code == 503
    assert "The database cannot be reached" in page.text
    answer = web.request("GET", "experiments/")
    assert answer.status_code == 503
    assert "The database cannot be reached" in answer.json()["errors"][0]["message"]
    for process in (web, worker):
        process.wait_until(lambda process=process: AWAY in process.log(), what="it says that Redis is away")
    time.sleep(away)

    postgresql.start()
    redis.start()
    (tmp_path / "go").touch()
    # the third trial is started by a worker that has its database, and its lease, again
    web.wait_until(lambda: web.request("GET", "experiments/").ok, what="the server answers again")
    experiment.nothing_is_lost()
    for process in (web, worker):
        process.wait_until(lambda process=process: BACK in process.log(), what="it says that Redis is back")
        log = process.log()[logged[process.name]:]
        assert (log.count(AWAY), log.count(BACK)) == (1, 1), "once each, however often it was tried"
        assert is_traceback_free(log), log
