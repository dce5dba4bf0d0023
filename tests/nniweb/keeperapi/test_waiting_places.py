"""Questions of warm places over HTTP: they stay open until there is an attempt, or their time is over."""

import asyncio
import json
import time
from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments.lifecycle.places import give
from nniweb.experiments.models import Attempt, Place
from nniweb.experiments.pubsub import doorbell
from nniweb.keeperapi import waiting_places
from nniweb.keeperapi.application import KeeperApplication
from tests.nniweb.keeperapi.test_keeper_application import acall, application, call  # noqa: F401  a fixture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def host(make_experiment, make_attempt) -> Attempt:
    """The first attempt of a job that may be a place; it has ended."""
    from nniweb.experiments.models import Cluster

    cluster = Cluster.objects.create(name="cluster", platform="slurm")
    attempt = make_attempt(make_experiment(cluster=cluster, trial_options={"reuseMode": True}))
    Attempt.objects.filter(pk=attempt.pk).update(stage="ended", end_received_at=timezone.now())
    return attempt


def question(host: Attempt, **said: Any) -> bytes:
    return json.dumps({"place": "k1", "after": host.job_name, "running": False, "wait": 0, "leave": None,
                       **said}).encode()


def ask(application: KeeperApplication, host: Attempt, **said: Any) -> tuple[int, dict[str, Any]]:  # noqa: F811
    status, _, body = call(application, "POST", f"trials/{host.job_name}/next", question(host, **said))
    return status, json.loads(body)


def test_a_place_is_told_that_there_is_nothing_yet(application, host) -> None:  # noqa: F811
    status, answer = ask(application, host)
    assert (status, answer["job"]) == (200, None)
    assert answer["installation"]
    assert Place.objects.get().job_name == host.job_name


def test_a_question_that_waits_is_answered_when_the_bell_rings(
        application, host, make_attempt, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(waiting_places, "LOOK_SECONDS", 600.0)  # so that nothing but the bell can answer
    assert ask(application, host)[0] == 200

    def give_next() -> str:
        attempt = make_attempt(host.trial.experiment)
        Attempt.objects.filter(pk=attempt.pk).update(stage="submitting")
        assert give(Place.objects.select_related("attempt").get(), attempt, timezone.now())
        doorbell.ring(attempt.trial.experiment_id, needs_round=False)
        return attempt.job_name

    async def both() -> tuple[bytes, str]:
        waits = asyncio.create_task(acall(application, "POST", f"trials/{host.job_name}/next", question(host, wait=60)))
        while not application.places._waiting:
            assert not waits.done()
            await asyncio.sleep(0.01)
        name = await asyncio.to_thread(give_next)
        return (await asyncio.wait_for(waits, 120))[2], name

    body, name = asyncio.run(both())
    job = json.loads(body)["job"]
    assert job["job_name"] == name
    assert set(job) >= {"token", "parameters", "limits", "environment"}
    assert not application.places._waiting


def test_a_question_is_held_back_no_longer_than_it_waits(application, host) -> None:  # noqa: F811
    began = time.monotonic()
    assert ask(application, host, wait=0.4) == (200, {"installation": ask(application, host)[1]["installation"],
                                                      "job": None})
    assert 0.4 <= time.monotonic() - began < 10


@pytest.mark.parametrize(("said", "field"), [
    ({"place": ""}, "place"), ({"place": "a b"}, "place"), ({"place": "k" * 65}, "place"), ({"after": 3}, "after"),
    ({"running": "yes"}, "running"), ({"wait": -1}, "wait"), ({"wait": True}, "wait"), ({"leave": "tired"}, "leave")])
def test_a_wrong_question_names_its_field_and_opens_nothing(application, host, said, field) -> None:  # noqa: F811
    status, answer = ask(application, host, **said)
    assert (status, answer["error"]) == (400, "unreadable")
    assert answer["message"].startswith(field)
    assert not Place.objects.exists()


def test_what_is_no_json_and_what_is_too_large_is_refused(application, host) -> None:  # noqa: F811
    path = f"trials/{host.job_name}/next"
    assert call(application, "POST", path, b"{")[0] == 400
    assert call(application, "POST", path, b"[]")[0] == 400
    assert call(application, "POST", path, b"x" * 5000)[0] == 413
    assert call(application, "POST", path, question(host), token="wrong")[0] == 401
    assert call(application, "POST", "trials/unknown00000/next", question(host))[0] == 404
