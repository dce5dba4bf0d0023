"""Which pages may open a websocket."""

import asyncio
from typing import Any

import pytest

from nniweb.middleware.origins import comes_from_own_page, own_pages_only


def scope(origin: str, host: str = "localhost:8080", scheme: str = "ws", **more: Any) -> dict[str, Any]:
    headers = [(b"Origin", origin.encode("latin-1")), (b"Host", host.encode("latin-1"))]
    return {"type": "websocket", "scheme": scheme, "headers": headers, **more}


@pytest.mark.parametrize(("origin", "host", "scheme"), [
    ("http://localhost:8080", "localhost:8080", "ws"), ("http://LOCALHOST:8080", "localhost:8080", "ws"),
    ("http://localhost", "localhost:80", "ws"), ("http://[::1]:9000", "[::1]:9000", "ws"),
    ("https://127.0.0.1", "127.0.0.1", "wss"), ("https://127.0.0.1", "127.0.0.1:443", "https")])
def test_pages_of_the_same_scheme_host_and_port_may(origin, host, scheme):
    assert comes_from_own_page(scope(origin, host, scheme))


@pytest.mark.parametrize("origin", [
    "http://localhost:8081", "http://localhost", "https://localhost:8080", "http://127.0.0.1:8080", "null", "",
    "localhost:8080",
    "http://localhost:8080@evil.example", "http://evil.example", "http://localhost:0x1f90", "http://localhost:99999",
    "http://[::1", "ftp://localhost:8080", "http://localhost.:8080", "\xb2", "http://sub.localhost:8080"])
def test_others_may_not_also_where_only_the_port_or_the_scheme_differs(origin):
    assert not comes_from_own_page(scope(origin))


def test_a_name_that_is_not_ours_may_not_though_the_page_has_it_too():
    assert not comes_from_own_page(scope("http://evil.example:8080", "evil.example:8080"))
    assert not comes_from_own_page(scope("http://localhost:8080", ""))


def test_two_origins_or_hosts_are_none():
    twice = scope("http://localhost:8080")
    assert not comes_from_own_page({**twice, "headers": [*twice["headers"], (b"origin", b"http://localhost:8080")]})
    assert not comes_from_own_page({**twice, "headers": [*twice["headers"], (b"host", b"localhost:8080")]})


def test_the_public_address_may_whatever_a_proxy_makes_of_scheme_and_host(settings):
    settings.PUBLIC_URL = "https://nni.example.org:8443"
    assert comes_from_own_page(scope("https://nni.example.org:8443", "nni.example.org"))
    assert not comes_from_own_page(scope("https://nni.example.org", "nni.example.org"))
    assert not comes_from_own_page(scope("http://nni.example.org:8443", "nni.example.org"))


def test_a_handshake_that_is_refused_reaches_nobody():
    async def nobody(*_: Any) -> None:
        raise AssertionError("it came through")

    said: list[Any] = []

    async def scenario() -> None:
        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            said.append(message)

        await own_pages_only(nobody)(scope("http://localhost:8081"), receive, send)

    asyncio.run(scenario())
    assert said == [{"type": "websocket.close"}]
