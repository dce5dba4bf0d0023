"""One browser's websocket, spoken with as a browser does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from nniweb.asgi import application
from nniweb.experiments.ingest.report_intervals import Fleet, intervals
from nniweb.experiments.models import Attempt, Cluster, Experiment, ResourceReading, Trial, User, Worker
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql import database_health
from nniweb.live import consumer, frames
from nniweb.live import hub as hub_module
from nniweb.live.hub import FRAME_PAUSE
from nniweb.live.signed_in import NOT_SIGNED_IN

# the connection's threads have database connections of their own, so rows must be committed
pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = b"http://localhost"
#: Seconds a message may take.
PATIENCE = 60.0


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nothing rings for is seen soon."""
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.2)


@pytest.fixture
def transactional(transactional_db: None, admin: User) -> User:
    return admin


def cookie_of(user: User) -> bytes:
    client = Client()
    client.force_login(user)
    return f"sessionid={client.cookies['sessionid'].value}".encode()


@asynccontextmanager
async def browser(cookie: bytes, origin: bytes = ORIGIN) -> AsyncIterator[WebsocketCommunicator]:
    """A connected websocket that has been greeted."""
    communicator = WebsocketCommunicator(application, "/live/", headers=[
        (b"cookie", cookie), (b"origin", origin), (b"host", b"localhost")])
    connected, _ = await communicator.connect(timeout=PATIENCE)
    assert connected
    assert await communicator.receive_json_from(timeout=PATIENCE) == {"hello": True}
    yield communicator
    await communicator.disconnect()


async def hear(communicator: WebsocketCommunicator) -> Any:
    return await communicator.receive_json_from(timeout=PATIENCE)


async def watch(communicator: WebsocketCommunicator, topic: str, **more: Any) -> Any:
    """Watch, and return the first frame."""
    await communicator.send_json_to({"watch": topic, **more})
    return await hear(communicator)


@database_sync_to_async
def change(experiment: Experiment, *trials: Trial) -> int:
    """The revision of the change."""
    revision = next_revision(experiment.pk)
    Trial.objects.filter(pk__in=[trial.pk for trial in trials]).update(revision=revision, message=f"at {revision}")
    doorbell.ring(experiment.pk)
    return revision


def run(scenario: Any) -> None:
    asyncio.run(scenario)


def test_the_first_frame_comes_at_once_and_changes_follow(transactional: User,
                                                          make_attempt: Callable[..., Attempt]) -> None:
    trial = make_attempt(revision=1).trial
    experiment, cookie = trial.experiment, cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            topic = f"experiment/{experiment.public_id}"
            first = await watch(page, topic)
            assert (first["topic"], first["since"], len(first["trials"])) == (topic, 0, 1)
            revision = await change(experiment, trial)
            frame = await hear(page)
            assert frame["revision"] == revision > first["revision"]
            assert [row["message"] for row in frame["trials"]] == [f"at {frame['revision']}"]

    run(scenario())


def test_who_comes_back_gets_just_what_was_missed(transactional: User, make_attempt: Callable[..., Attempt]) -> None:
    old = make_attempt(revision=1).trial
    new = make_attempt(old.experiment, revision=5).trial
    Experiment.objects.update(revision=5)
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            frame = await watch(page, f"experiment/{old.experiment.public_id}", since=4)
            assert (frame["since"], frame["revision"]) == (4, 5)
            assert [row["id"] for row in frame["trials"]] == [new.public_id]
        async with browser(cookie) as page:
            frame = await watch(page, f"experiment/{old.experiment.public_id}", since=5)
            assert (frame["revision"], frame["trials"]) == (5, []), "it comes although nothing is new"

    run(scenario())


def test_a_trial_is_watched(transactional: User, make_attempt: Callable[..., Attempt]) -> None:
    trial = make_attempt(revision=1).trial
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            assert (await watch(page, f"trial/{trial.public_id}"))["trial"]["id"] == trial.public_id
            await change(trial.experiment, trial)
            assert (await hear(page))["trial"]["message"].startswith("at ")

    run(scenario())


def test_a_burst_of_changes_costs_few_frames(transactional: User, make_attempt: Callable[..., Attempt]) -> None:
    trial = make_attempt(revision=1).trial
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            await watch(page, f"experiment/{trial.experiment.public_id}")
            began, frames_heard, last = time.monotonic(), 0, 0
            for _ in range(60):
                await change(trial.experiment, trial)
            while last < 60:
                last = (await hear(page))["revision"]
                frames_heard += 1
            most = (time.monotonic() - began) / FRAME_PAUSE + 2
            assert frames_heard <= most
            assert frames_heard < 60

    run(scenario())


def test_several_watchers_share_one_reading(transactional: User, make_attempt: Callable[..., Attempt],
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make_attempt(revision=1).trial
    cookie = cookie_of(transactional)
    readings: list[int] = []
    real = frames.experiment_frame

    def counted(pk: int, since: int) -> Any:
        readings.append(since)
        return real(pk, since)

    monkeypatch.setattr(frames, "experiment_frame", counted)

    async def scenario() -> None:
        topic = f"experiment/{trial.experiment.public_id}"
        async with browser(cookie) as one, browser(cookie) as two, browser(cookie) as three:
            pages = (one, two, three)
            revisions = {(await watch(page, topic))["revision"] for page in pages}
            assert len(revisions) == 1
            readings.clear()
            await change(trial.experiment, trial)
            assert len({(await hear(page))["revision"] for page in pages}) == 1
            assert len(readings) == 1

    run(scenario())


def test_a_change_nobody_rang_for_is_found(transactional: User, make_attempt: Callable[..., Attempt],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make_attempt(revision=1).trial
    cookie = cookie_of(transactional)
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(hub_module, "_database_moved", lambda: True)

    async def scenario() -> None:
        async with browser(cookie) as page, browser(cookie) as listing:
            first = await watch(page, f"experiment/{trial.experiment.public_id}")
            await listing.send_json_to({"watch": "experiments", "rows": {trial.experiment.public_id: 0}})

            def elsewhere() -> None:
                Experiment.objects.update(revision=first["revision"] + 1)

            await database_sync_to_async(elsewhere)()
            while (await hear(page))["revision"] == first["revision"]:
                pass  # frames of the first look
            while (await hear(listing))["experiments"][0]["revision"] == first["revision"]:
                pass

    run(scenario())


def test_a_reading_that_failed_is_made_up_for(transactional: User, make_attempt: Callable[..., Attempt],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make_attempt(revision=1).trial
    cookie = cookie_of(transactional)
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.1)
    real, failures = frames.experiment_frame, [RuntimeError("the database is locked")]

    def failing_once(pk: int, since: int) -> Any:
        if failures:
            raise failures.pop()
        return real(pk, since)

    monkeypatch.setattr(frames, "experiment_frame", failing_once)

    async def scenario() -> None:
        async with browser(cookie) as page:
            assert (await watch(page, f"experiment/{trial.experiment.public_id}"))["trials"]

    run(scenario())


@pytest.mark.usefixtures("looks_often")
def test_what_comes_without_a_revision_is_told_after_a_reading_that_failed(
        transactional: User, make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, cookie = make_attempt(status="RUNNING", revision=1), cookie_of(transactional)
    real = frames.trial_frame
    failures: list[OperationalError] = []

    def failing_once(pk: int, since: int) -> Any:
        if failures:
            raise failures.pop()
        return real(pk, since)

    monkeypatch.setattr(frames, "trial_frame", failing_once)

    @database_sync_to_async
    def read_machine() -> None:
        failures.append(OperationalError("the database is locked"))
        ResourceReading.objects.create(attempt=attempt, at=timezone.now(), data={"cpu_percent": 50.0})

    async def scenario() -> None:
        async with browser(cookie) as page:
            await watch(page, f"trial/{attempt.trial.public_id}")
            await hear(page)  # the hub's first look tells everybody once more
            await read_machine()
            assert (await page.receive_json_from(timeout=10))["reading"]["cpu_percent"] == 50.0
            assert not failures

    run(scenario())


def test_a_list_whose_first_look_failed_hears_of_changes(transactional: User, make_attempt: Callable[..., Attempt],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, cookie = make_attempt(revision=1).trial.experiment, cookie_of(transactional)
    monkeypatch.setattr(consumer, "LIST_PAUSE", 0.05)
    real, failures = frames.changed_since, [OperationalError("too many connections")]

    def failing_once(user: User, shown: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(user, shown)

    monkeypatch.setattr(frames, "changed_since", failing_once)

    async def scenario() -> None:
        async with browser(cookie) as page:
            await page.send_json_to({"watch": "experiments", "rows": {experiment.public_id: 0}})
            frame = await page.receive_json_from(timeout=10)
            assert [row["id"] for row in frame["experiments"]] == [experiment.public_id]

    run(scenario())


def test_that_the_worker_went_is_told_although_no_row_of_the_experiment_changed(
        transactional: User, make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make_attempt(revision=1).trial
    now = timezone.now()
    Worker.objects.create(id="w", host="here", pid=1, started_at=now, heard_at=now + timedelta(hours=1))
    cookie = cookie_of(transactional)
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.1)

    async def scenario() -> None:
        async with browser(cookie) as page:
            first = await watch(page, f"experiment/{trial.experiment.public_id}")
            assert "worker" not in first["experiment"]["message"]
            await database_sync_to_async(Worker.objects.all().delete)()
            while "No worker is alive" not in (await hear(page))["experiment"]["message"]:
                pass

    run(scenario())


def test_that_the_worker_went_is_told_after_a_look_that_failed(
        transactional: User, make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make_attempt(revision=1).trial
    now = timezone.now()
    Worker.objects.create(id="w", host="here", pid=1, started_at=now, heard_at=now + timedelta(hours=1))
    cookie = cookie_of(transactional)
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.1)
    real = frames.revisions_of
    failures: list[OperationalError] = []

    def failing_once(pks: Any) -> dict[int, int]:
        if failures:
            raise failures.pop()
        return real(pks)

    monkeypatch.setattr(frames, "revisions_of", failing_once)

    @database_sync_to_async
    def end_worker() -> None:
        failures.append(OperationalError("the database is locked"))
        Worker.objects.all().delete()

    async def scenario() -> None:
        async with browser(cookie) as page:
            await watch(page, f"experiment/{trial.experiment.public_id}")
            await hear(page)  # the hub's first look tells everybody once more
            await end_worker()
            while "No worker is alive" not in (await page.receive_json_from(timeout=10))["experiment"]["message"]:
                pass

    run(scenario())


def test_that_the_disk_is_full_is_told_although_no_row_of_the_experiment_changed(
        transactional: User, make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.05)
    experiment = make_attempt().trial.experiment
    cookie = cookie_of(transactional)
    full = OperationalError("database or disk is full")

    async def scenario() -> None:
        async with browser(cookie) as page:
            database_health.note_refused(full)
            first = await watch(page, f"experiment/{experiment.public_id}")
            assert str(full) in first["trouble"]
            assert first["experiment"]["message"] == first["trouble"]
            await hear(page)  # after the hub's first look, which has seen the same
            database_health.note_written()
            assert (await hear(page))["trouble"] == ""
            database_health.note_refused(full)
            assert str(full) in (await hear(page))["trouble"]

    run(scenario())


def test_a_page_on_which_nothing_changes_hears_that_the_server_is_there(transactional: User,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "SIGN_OF_LIFE_SECONDS", 0.05)
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            assert [await hear(page) for _ in range(2)] == [{"alive": True}] * 2

    run(scenario())


def test_what_is_deleted_is_said_once(transactional: User, make_attempt: Callable[..., Attempt]) -> None:
    trial = make_attempt(revision=1).trial
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            topic = f"experiment/{trial.experiment.public_id}"
            await watch(page, topic)
            await database_sync_to_async(Experiment.objects.update)(deleted_at=timezone.now())
            await change(trial.experiment)
            assert await hear(page) == {"topic": topic, "gone": True}
            await change(trial.experiment)
            assert await page.receive_nothing(timeout=3 * FRAME_PAUSE)

    run(scenario())


def test_what_a_person_may_not_see_is_gone_for_them(transactional: User, make_attempt: Callable[..., Attempt]) -> None:
    trial = make_attempt(revision=1).trial
    cookie = cookie_of(User.objects.create_user("mia"))

    async def scenario() -> None:
        async with browser(cookie) as page:
            for topic in (f"experiment/{trial.experiment.public_id}", f"trial/{trial.public_id}", "trial/nothing"):
                assert await watch(page, topic) == {"topic": topic, "gone": True}
            ids = [trial.experiment.public_id, "nothing"]
            frame = await watch(page, "experiments", rows=dict.fromkeys(ids, 0))
            assert (frame["experiments"], frame["gone"]) == ([], sorted(ids)), "as if it were not there"
            assert "worker_alive" in frame
            await change(trial.experiment, trial)
            assert await page.receive_nothing(timeout=1)

    run(scenario())


def test_what_cannot_be_understood_gets_a_sentence(transactional: User) -> None:
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            for text in ("nonsense", "[]", '{"watch": "experiments", "since": "x"}', "[" * 5000,
                         '{"watch": "experiments", "since": 1e999}'):
                await page.send_to(text_data=text)
                assert "error" in await hear(page)
            await page.send_to(bytes_data=b"\xff")
            assert "error" in await hear(page)
            assert "error" in await watch(page, "weather")
            assert (await watch(page, "trial/\ud800"))["gone"]
            await page.send_json_to({"watch": "experiments", "rows": {"\ud800": 1, "a": "b", "c": 10**40}})
            assert (await watch(page, "trial/none", since=10**40))["gone"], "the connection lives"

    run(scenario())


@pytest.mark.parametrize("name", ["\0", "ü"])
def test_a_name_that_no_database_takes_is_gone_like_any_other(transactional: User, name: str) -> None:
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        async with browser(cookie) as page:
            for topic in (f"experiment/{name}", f"log/{name}", f"trial/{name}"):
                assert await watch(page, topic) == {"topic": topic, "gone": True}
            listed = await watch(page, "experiments", rows={name: 1, "never": 1})
            assert listed["gone"] == ["never"]

    run(scenario())


def test_who_is_not_signed_in_is_told_with_a_code_the_page_knows(transactional: User) -> None:
    async def scenario() -> None:
        communicator = WebsocketCommunicator(application, "/live/", headers=[
            (b"origin", ORIGIN), (b"host", b"localhost")])
        assert (await communicator.connect(timeout=PATIENCE))[0]
        closed = await communicator.receive_output(timeout=PATIENCE)
        assert (closed["type"], closed["code"]) == ("websocket.close", NOT_SIGNED_IN)
        await communicator.send_to(text_data=json.dumps({"watch": "experiments"}))
        assert await communicator.receive_nothing(timeout=0.3)

    run(scenario())


def test_pages_of_other_origins_are_refused(transactional: User) -> None:
    cookie = cookie_of(transactional)

    async def scenario() -> None:
        communicator = WebsocketCommunicator(application, "/live/", headers=[
            (b"cookie", cookie), (b"origin", b"http://evil.example"), (b"host", b"localhost")])
        connected, _ = await communicator.connect(timeout=PATIENCE)
        assert not connected

    run(scenario())


@pytest.mark.usefixtures("looks_often")
def test_a_reading_comes_without_a_revision(transactional: User,
                                            make_attempt: Callable[..., Attempt]) -> None:
    attempt, cookie = make_attempt(status="RUNNING", revision=1), cookie_of(transactional)

    @database_sync_to_async
    def read_machine() -> None:
        ResourceReading.objects.create(attempt=attempt, at=timezone.now(), data={"cpu_percent": 50.0})

    async def scenario() -> None:
        async with browser(cookie) as page:
            first = await watch(page, f"trial/{attempt.trial.public_id}")
            assert first["reading"] is None
            await read_machine()
            while (frame := await hear(page))["reading"] is None:
                pass  # the hub's first look tells everybody once more
            assert (frame["revision"], frame["reading"]["cpu_percent"]) == (first["revision"], 50.0)

    run(scenario())


@pytest.mark.usefixtures("looks_often")
def test_a_page_of_clusters_hears_what_no_experiment_rings_for(transactional: User,
                                                               make_attempt: Callable[..., Attempt]) -> None:
    trial, cookie = make_attempt(revision=1).trial, cookie_of(transactional)

    @database_sync_to_async
    def disable() -> None:
        Cluster.objects.update(enabled=False)

    async def scenario() -> None:
        async with browser(cookie) as page:
            assert await watch(page, "clusters") == {"topic": "clusters"}
            assert await hear(page) == {"topic": "clusters"}, "the hub's first look tells everybody once more"
            await disable()
            assert await hear(page) == {"topic": "clusters"}
            await change(trial.experiment, trial)
            assert await hear(page) == {"topic": "clusters"}

    run(scenario())


@pytest.mark.usefixtures("looks_often")
def test_keepers_of_what_a_page_shows_are_noted_as_watched_in_a_large_installation(
        transactional: User, make_attempt: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    watched, of_experiment = make_attempt().trial, make_attempt().trial
    cookie = cookie_of(transactional)
    monkeypatch.setattr(intervals, "fleet", Fleet(50_000))
    monkeypatch.setattr(intervals, "count_if_due", lambda: None)
    monkeypatch.setattr(hub_module, "WATCHED_AGAIN", 0.1)
    until = database_sync_to_async(lambda: (
        Trial.objects.get(pk=watched.pk).watched_until,
        Experiment.objects.get(pk=of_experiment.experiment_id).watched_until,
        Experiment.objects.get(pk=watched.experiment_id).watched_until))

    async def scenario() -> None:
        async with browser(cookie) as page:
            await watch(page, f"trial/{watched.public_id}")
            await watch(page, f"experiment/{of_experiment.experiment.public_id}")
            deadline = time.monotonic() + PATIENCE
            while None in (noted := await until())[:2]:
                assert time.monotonic() < deadline, noted
                await asyncio.sleep(0.05)
            assert noted[2] is None, "of the trial's experiment only the trial is shown"

    run(scenario())
