"""Passwords do not cross a network in the clear unless somebody said so."""

import asyncio
from typing import Any

import pytest

from nniweb.middleware.require_tls import not_in_the_clear, why_not_listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "host.invalid"])
def test_the_server_does_not_listen_where_others_can_reach_it(host: str) -> None:
    assert "NNIWEB_PLAIN_HTTP=1" in why_not_listen(host, allowed=False)
    assert not why_not_listen(host, allowed=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.8.8.8", "localhost"])
def test_on_loopback_it_does(host: str) -> None:
    assert not why_not_listen(host, allowed=False)


def ask(server: Any, kind: str = "http", *, allowed: bool = False) -> str:
    heard: list[Any] = []

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "answered"})

    async def send(message: Any) -> None:
        heard.append(message)

    application = not_in_the_clear(answering, allowed=allowed)
    asyncio.run(application({"type": kind, "server": server}, None, send))  # type: ignore[arg-type]  # reads nothing
    return str(heard[0].get("status", heard[0]["type"]))


def test_a_server_started_some_other_way_refuses_what_came_over_a_network() -> None:
    assert ask(("192.0.2.1", 8080)) == "403"
    assert ask(("192.0.2.1", 8080), "websocket") == "websocket.close"
    assert ask(("2001:db8::1", 8080)) == "403"
    assert ask(("192.0.2.1", 8080), allowed=True) == "answered"
    for here in (("127.0.0.1", 8080), ("::1", 8080), ("::ffff:127.0.0.1", 8080), ("/run/nniweb.socket", None), None):
        assert ask(here) == "answered"
