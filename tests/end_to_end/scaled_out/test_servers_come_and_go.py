"""PostgreSQL and Redis are killed and come back: nothing is lost, and everything goes on by itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import requests

from tests.end_to_end.scaled_out.gated_trials import GatedTrials
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer
from tests.end_to_end.scaled_out.redis_server import RedisServer
from tests.end_to_end.scaled_out.several_processes import Installation, is_traceback_free

AWAY, BACK = "Redis cannot be reached", "Redis is back"
#: How long PostgreSQL is away, in seconds; the longer time outlasts the leases.
AWAY_SECONDS = [
    pytest.param(2, id="for a moment", marks=pytest.mark.kill_table(
        "kill -9 of PostgreSQL and of Redis, and their return after 2 s")),
    pytest.param(30, id="for half a minute", marks=[pytest.mark.slow, pytest.mark.kill_table(
        "kill -9 of PostgreSQL and of Redis, and their return after 30 s")])]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("away", AWAY_SECONDS)
def test_nothing_is_lost_while_postgresql_and_redis_are_away(
        installation: Installation, postgresql: PostgresqlServer, redis: RedisServer, tmp_path: Path,
        away: float, seed: int) -> None:
    web, worker = installation.web("web").start(), installation.worker("worker").start()
    gated = GatedTrials(tmp_path / "experiment")
    experiment = web.launch(gated.config({"platform": "scripted_anywhere", "folder": str(tmp_path / "cluster")},
                                         trials=3, trialConcurrency=2), gated.code)
    web.wait_until(lambda: len(gated.starts()) == 2, what="two trials run")
    gated.step(0)

    def first_reported() -> bool:
        return installation.rows("SELECT count(*) FROM experiments_metric WHERE kind = 'PERIODICAL'") == [(2,)]

    web.wait_until(first_reported, what="both have reported")

    logged = {process.name: len(process.log()) for process in (web, worker)}
    postgresql.kill()
    redis.kill()
    gated.step(1)  # reported into the outage: the keepers keep it
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
    gated.step(2)
    gated.let_go()
    # the third trial is started by a worker that has its database, and its lease, again
    web.wait_until(lambda: web.request("GET", "experiments/").ok, what="the server answers again")
    web.wait_for_experiment(experiment, patience=120)
    trials = web.get_all(f"experiments/{experiment}/trials/")
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * 3
    assert gated.starts() == sorted(trial["id"] for trial in trials), "each was started once"
    for trial in trials:
        x = trial["parameters"]["x"]
        rows = web.get_all(f"trials/{trial['id']}/metrics/")
        assert sorted(row["number"] for row in rows if row["kind"] == "PERIODICAL") == \
            pytest.approx([x, x + 1, x + 2])
        assert [row["number"] for row in rows if row["kind"] == "FINAL"] == pytest.approx([x])
    for process in (web, worker):
        process.wait_until(lambda process=process: BACK in process.log(), what="it says that Redis is back")
        log = process.log()[logged[process.name]:]
        assert (log.count(AWAY), log.count(BACK)) == (1, 1), "once each, however often it was tried"
        assert is_traceback_free(log), log
