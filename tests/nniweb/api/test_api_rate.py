"""Nobody keeps the server from others by asking too often."""

from typing import Any

import pytest

from nniweb.api import throttles


@pytest.fixture(autouse=True)
def three_a_minute(settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """At a time that stands still; the list holds it."""
    settings.API_RATE = 3
    now = [3_000_000_015.0]
    monkeypatch.setattr(throttles.time, "time", lambda: now[0])
    throttles.cache.clear()
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
