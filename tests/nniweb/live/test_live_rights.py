"""A websocket is not worth more than the session and the rights it was opened with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from nniweb.experiments.access import accounts
from nniweb.experiments.actions import intents
from nniweb.experiments.models import Attempt, Experiment, Session, User
from nniweb.experiments.models.account import Role
from nniweb.experiments.pubsub import doorbell
from nniweb.live import hub, open_sockets
from nniweb.live.open_sockets import COME_AGAIN
from tests.nniweb.live.test_live_connection import browser, cookie_of, hear, run, watch

pytestmark = pytest.mark.django_db(transaction=True)

#: Seconds until a socket is closed.
PATIENCE = 60.0


@pytest.fixture
def team(transactional_db: None) -> Group:
    return Group.objects.create(name="vision")


@pytest.fixture
def mia(team: Group, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setattr(open_sockets, "LOOK_SECONDS", 0.05)
    user = User.objects.create_user("mia", password="a long pass phrase")
    user.groups.add(team)
    return user


@pytest.fixture
def shared(mia: User, team: Group, make_attempt: Callable[..., Attempt]) -> Experiment:
    """Somebody else's, which mia sees as a member of the team."""
    experiment = make_attempt(revision=1).trial.experiment
    Experiment.objects.update(group=team)
    experiment.refresh_from_db()
    return experiment


async def hear_the_end(page: WebsocketCommunicator) -> int:
    """The closing code; what was under way before that is heard first."""
    while (message := await page.receive_output(timeout=PATIENCE))["type"] != "websocket.close":
        pass
    return int(message["code"])


def sign_out(mia: User, session: str) -> None:
    client = Client()
    client.cookies["sessionid"] = session
    assert client.post("/sign-out/").status_code == 302


def run_out(mia: User, session: str) -> None:
    Session.objects.update(expire_date=timezone.now())


def deactivate(mia: User, session: str) -> None:
    accounts.change_user(mia, {"is_active": False})


def remove(mia: User, session: str) -> None:
    accounts.delete_user(mia)


def become_a_viewer(mia: User, session: str) -> None:
    accounts.change_user(mia, {"role": Role.VIEWER})


def leave_the_group(mia: User, session: str) -> None:
    accounts.change_user(mia, {"groups": []})


def see_the_group_go(mia: User, session: str) -> None:
    accounts.delete_group(mia.groups.get())


def change_the_password(mia: User, session: str) -> None:
    mia.set_password("another long pass phrase")
    mia.save()


@pytest.mark.parametrize("event", [sign_out, run_out, deactivate, remove, become_a_viewer, leave_the_group,
                                   see_the_group_go, change_the_password], ids=lambda event: event.__name__)
def test_a_socket_ends_when_its_person_signs_out_or_may_do_something_else(event: Any, mia: User,
                                                                          shared: Experiment) -> None:
    cookie = cookie_of(mia)

    def change() -> None:
        event(mia, cookie.decode().partition("=")[2])

    async def scenario() -> None:
        async with browser(cookie) as page:
            assert (await watch(page, f"experiment/{shared.public_id}"))["trials"]
            await database_sync_to_async(change)()
            assert await hear_the_end(page) == COME_AGAIN
            await database_sync_to_async(doorbell.ring)(shared.pk)
            assert await page.receive_nothing(timeout=0.3), "nothing follows the end"

    run(scenario())


def test_who_comes_again_is_who_they_are_now(mia: User, shared: Experiment) -> None:
    cookie = cookie_of(mia)

    async def scenario() -> None:
        async with browser(cookie) as page:
            assert (await watch(page, f"experiment/{shared.public_id}"))["trials"]
            await database_sync_to_async(leave_the_group)(mia, "")
            await hear_the_end(page)
        async with browser(cookie) as page:
            assert "gone" in await watch(page, f"experiment/{shared.public_id}")

    run(scenario())


@pytest.mark.parametrize("topic", ["experiment", "log", "trial"])
def test_an_experiment_that_is_shared_no_more_is_gone_before_anything_new_of_it_is_told(
        topic: str, mia: User, shared: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "LOOK_SECONDS", 0.2)
    cookie = cookie_of(mia)
    public_id = shared.public_id if topic != "trial" else shared.trials.get().public_id

    async def scenario() -> None:
        async with browser(cookie) as page, browser(cookie) as listing:
            seen = (await watch(page, f"{topic}/{public_id}"))["revision"]
            await listing.send_json_to({"watch": "experiments", "rows": {shared.public_id: 0}})
            assert (await hear(listing))["experiments"]
            await database_sync_to_async(intents.share)(shared, None)
            while "gone" not in (frame := await hear(page)):
                assert frame["revision"] == seen, "it was on its way before"
            assert frame == {"topic": f"{topic}/{public_id}", "gone": True}
            while not (frame := await hear(listing))["gone"]:
                pass  # rings from before
            assert frame["gone"] == [shared.public_id]

    run(scenario())


def test_whoever_still_sees_an_experiment_that_changed_hands_goes_on(mia: User, shared: Experiment) -> None:
    cookie = cookie_of(mia)

    async def scenario() -> None:
        async with browser(cookie) as page:
            first = await watch(page, f"experiment/{shared.public_id}")
            await database_sync_to_async(intents.hand_over)(shared, mia)
            while (frame := await hear(page))["experiment"]["owner"] != "mia":
                assert frame["revision"] >= first["revision"]

    run(scenario())
