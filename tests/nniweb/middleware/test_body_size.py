"""No request fills the disk: who may send much is asked before it is read."""

import asyncio
import threading
from typing import Any

import pytest
from django.test import Client

from nniweb.experiments.models import ApiToken, User
from nniweb.experiments.models.account import Role
from nniweb.middleware.allowances import ANYBODYS_BYTES
from nniweb.middleware.body_size import not_too_large
from nniweb.middleware.senders import CODE_BYTES, PERSONS_BYTES, may_send

LIMIT = ANYBODYS_BYTES


def ask(length: bytes | None, *pieces: int, may_have: int = 2 * LIMIT) -> tuple[list[int], int, int]:
    """The statuses that were sent, how many bytes the application got, and how often it was asked who sends."""
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": b"x" * size, "more_body": place < len(pieces)}
               for place, size in enumerate(pieces, 1)]
    got = asked = 0

    def may_send(scope: Any) -> int:
        nonlocal asked
        asked += 1
        assert threading.current_thread() is not threading.main_thread()
        return may_have

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal got
        while (message := await receive())["type"] == "http.request":
            got += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"Content-Length", length)]
    asyncio.run(not_too_large(application, may_send)({"type": "http", "headers": headers}, receive, send))
    return [message["status"] for message in sent if "status" in message], got, asked


@pytest.mark.parametrize(("length", "pieces", "status", "read", "asked"), [
    (LIMIT, [LIMIT], 200, LIMIT, 0), (2 * LIMIT, [2 * LIMIT], 200, 2 * LIMIT, 1),
    (2 * LIMIT + 1, [1], 413, 0, 1), ("1e9", [1], 413, 0, 1), ("9" * 400, [1], 413, 0, 1),
    ("0" * 40 + str(3 * LIMIT), [1], 413, 0, 1),
    (None, [LIMIT // 2, LIMIT // 2], 200, LIMIT, 0), (None, [LIMIT, LIMIT], 200, 2 * LIMIT, 1),
    (None, [LIMIT, LIMIT, 1, 1], 413, 2 * LIMIT, 1)],
    ids=["a little", "as much as may be", "more", "no number", "a number of many figures", "with zeros", "in pieces",
         "in large pieces", "in too many pieces"])
def test_what_is_too_large_is_refused_as_soon_as_that_is_known(length: int | str | None, pieces: list[int],
                                                               status: int, read: int, asked: int) -> None:
    assert ask(None if length is None else str(length).encode(), *pieces) == ([status], read, asked)


def scope(path: str = "/api/v1/experiments/", **headers: str) -> dict[str, Any]:
    return {"type": "http", "path": path, "method": "POST", "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


@pytest.mark.django_db(transaction=True)
def test_how_much_one_may_send_is_said_by_who_one_is_and_where_it_goes(client: Client) -> None:
    member, viewer = (User.objects.create_user(role, role=role) for role in (Role.MEMBER, Role.VIEWER))
    client.force_login(member)
    cookie = {"cookie": f"a=b; sessionid={client.cookies['sessionid'].value}"}
    assert may_send(scope(**cookie)) == CODE_BYTES
    assert may_send(scope("/api/v1/experiments/check/", **cookie)) == CODE_BYTES
    assert may_send(scope("/new/", **cookie)) == CODE_BYTES
    assert may_send(scope("/api/v1/account/", **cookie)) == PERSONS_BYTES
    assert may_send(scope("/there/is/nothing/", **cookie)) == PERSONS_BYTES
    token = {"authorization": f"Token {ApiToken.make(viewer)}"}
    assert may_send(scope(**token)) == PERSONS_BYTES
    assert may_send(scope()) == ANYBODYS_BYTES
    assert may_send(scope(cookie="sessionid=wrong")) == ANYBODYS_BYTES
    assert may_send(scope(authorization="Token nniweb_wrong")) == ANYBODYS_BYTES
    member.is_active = False
    member.save()
    assert may_send(scope(**cookie)) == ANYBODYS_BYTES
