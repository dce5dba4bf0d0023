"""Nobody keeps the server from others by asking too often."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nniweb.http.callers import request_counts, throttles
from tests.end_to_end.scaled_out.redis_server import RedisServer, redis, redis_of_this_run

__all__ = ["redis", "redis_of_this_run"]


@pytest.fixture(autouse=True)
def three_a_minute(settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """At a time that stands still; the list holds it."""
    settings.API_RATE = 3
    now = [3_000_000_015.0]
    monkeypatch.setattr(throttles.time, "time", lambda: now[0])
    request_counts.cache.clear()
    return now


def test_who_asks_too_often_is_told_when_to_come_again_and_others_are_not_affected(
        as_user: Any, alice: Any, bob: Any, three_a_minute: list[float]) -> None:
    client, other = as_user(alice), as_user(bob)
    assert [client.get("/api/v1/experiments/").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/api/v1/platforms/")
    assert refused["Retry-After"] == "45"
    assert refused.json()["errors"][0]["message"]
    assert other.get("/api/v1/experiments/").status_code == 200
    assert as_user(alice).get("/api/v1/experiments/").status_code == 200, "another token of hers"
    three_a_minute[0] += 45
    assert client.get("/api/v1/experiments/").status_code == 200


def test_nnis_interface_and_the_schema_count_as_well(as_user: Any, alice: Any, make_experiment: Any) -> None:
    experiment = make_experiment(owner=alice)
    client = as_user(alice)
    for _ in range(3):
        assert client.get(f"/nni/{experiment.public_id}/api/v1/nni/version").status_code == 200
    assert client.get("/api/schema/").status_code == 429
    refused = client.get(f"/nni/{experiment.public_id}/api/v1/nni/version")
    assert (refused.status_code, list(refused.json())) == (429, ["error"])


@pytest.fixture
def shared(redis: RedisServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """A Redis that is configured, and may be slow on a busy machine."""
    monkeypatch.setattr(request_counts, "PATIENCE", 30.0)
    monkeypatch.setattr(request_counts, "_away_until", 0.0)
    request_counts._redis.cache_clear()
    settings.REDIS_URL, settings.INSTALLATION_ID = redis.url, "one"
    yield redis
    request_counts._redis.cache_clear()


#: Another web process, as far as counting goes: prints how many requests there were with the one it counts.
ANOTHER = """
import django
from django.conf import settings
settings.configure(REDIS_URL={url!r}, INSTALLATION_ID="one")
from nniweb.http.callers import request_counts
request_counts.PATIENCE = 30.0
print(request_counts.counted("rest-person-7"))
"""


def test_with_redis_all_processes_count_together(shared: RedisServer, settings: Any) -> None:
    request_counts.counted("rest-person-7")
    other = subprocess.run([sys.executable, "-c", ANOTHER.format(url=shared.url)], capture_output=True, text=True,
                           cwd=Path(__file__).resolve().parents[3], timeout=100, check=True)
    assert other.stdout.strip() == "2"
    assert request_counts.counted("rest-person-7") == 3
    assert request_counts.counted("rest-person-8") == 1
    settings.INSTALLATION_ID = "another"
    assert request_counts.counted("rest-person-7") == 1, "several installations may share a Redis"


def test_while_redis_is_away_each_counts_for_itself_and_nobody_waits_long(
        shared: RedisServer, as_user: Any, alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = as_user(alice)
    assert client.get("/api/v1/experiments/").status_code == 200
    shared.kill()
    assert [client.get("/api/v1/experiments/").status_code for _ in range(4)] == [200, 200, 200, 429]
    shared.start()
    monkeypatch.setattr(request_counts, "_away_until", 0.0)
    assert client.get("/api/v1/experiments/").status_code == 200, "it is asked again, and has forgotten"
