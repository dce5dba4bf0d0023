"""Webs and workers are started while PostgreSQL and Redis are away, and work once these have come."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.running_server import free_port
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer
from tests.end_to_end.scaled_out.redis_server import RedisServer
from tests.end_to_end.scaled_out.several_processes import Installation, is_traceback_free


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.kill_table("a start of a web and a worker while PostgreSQL and Redis are away")
def test_a_web_and_a_worker_started_too_early_work_once_postgresql_and_redis_have_come(
        installation: Installation, postgresql: PostgresqlServer, redis: RedisServer, tmp_path: Path,
        seed: int) -> None:
    port = free_port()
    postgresql.kill()
    redis.kill()
    web = installation.web("web").start(wait=False)
    worker = installation.worker("worker", NNIWEB_WORKER_PORT=str(port)).start()
    pids = web.pid, worker.pid
    for url in (web.url, f"http://127.0.0.1:{port}"):
        said = web.wait_until(lambda url=url: not_ready(url), 60, "it says why it is not ready")
        assert "The database cannot be reached" in said
    postgresql.start()
    redis.start()
    for url in (web.url, f"http://127.0.0.1:{port}"):
        web.wait_until(lambda url=url: requests.get(f"{url}/readyz", timeout=90).ok, 60, "it is ready")
    WitnessedExperiment(web, tmp_path / "experiment", trials=3, concurrency=3,
                        platform={"platform": "scripted_anywhere", "folder": str(tmp_path / "cluster")}
                        ).launch().nothing_is_lost()
    assert web.is_alive
    assert worker.is_alive
    assert (web.pid, worker.pid) == pids
    assert is_traceback_free(web.log() + worker.log())


def not_ready(url: str) -> str:
    """What a process says that answers 503 at ``/readyz``; "" else."""
    try:
        answer = requests.get(f"{url}/readyz", timeout=90)
    except requests.RequestException:
        return ""
    return " ".join(check["message"] for check in answer.json()["checks"]) if answer.status_code == 503 else ""
