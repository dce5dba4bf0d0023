"""Whose X-Forwarded headers are believed."""

from typing import Any

import pytest

from nniweb.http.proxies import as_the_proxy_saw_it, read_networks

PROXIES = read_networks(["127.0.0.1", "10.0.0.0/8", "fd00::/8"])


def seen(client: str | None, forwarded_for: str | None = None, proto: str | None = None,
         kind: str = "http") -> tuple[Any, str, list[bytes]]:
    headers = [(b"host", b"nni.example.org")]
    headers += [(b"X-Forwarded-For", forwarded_for.encode())] if forwarded_for is not None else []
    headers += [(b"X-Forwarded-Proto", proto.encode())] if proto is not None else []
    scheme = "ws" if kind == "websocket" else "http"
    scope = as_the_proxy_saw_it({"type": kind, "scheme": scheme, "client": client and (client, 999),
                                 "headers": headers}, PROXIES)
    return scope["client"] and scope["client"][0], scope["scheme"], [name for name, _ in scope["headers"]]


@pytest.mark.parametrize(("client", "forwarded_for", "proto", "address", "scheme"), [
    ("127.0.0.1", "203.0.113.7", "https", "203.0.113.7", "https"),
    ("127.0.0.1", None, None, "127.0.0.1", "http"),
    ("203.0.113.9", "198.51.100.1", "https", "203.0.113.9", "http"),
    ("127.0.0.1", "198.51.100.1, 203.0.113.7, 10.1.2.3", "https", "203.0.113.7", "https"),
    ("127.0.0.1", "10.1.2.3", "http", "10.1.2.3", "http"),
    ("127.0.0.1", "203.0.113.7, <script>", "https", "127.0.0.1", "https"),
    ("::ffff:10.1.2.3", "2001:db8::1", "https", "2001:db8::1", "https"),
    (None, "203.0.113.7", "https", None, "http"),
], ids=["the proxy says who", "the proxy says nothing", "a stranger says who", "what a visitor said before the proxy",
        "from inside", "no address", "IPv4 in IPv6", "a socket file"])
def test_the_visitor_is_whom_a_trusted_proxy_saw(client: Any, forwarded_for: Any, proto: Any, address: Any,
                                                 scheme: str) -> None:
    assert seen(client, forwarded_for, proto) == (address, scheme, [b"host"]), "nobody after this sees the headers"


def test_a_websocket_through_tls_is_one() -> None:
    assert seen("127.0.0.1", "203.0.113.7", "https", kind="websocket")[1] == "wss"


def test_what_is_no_network_is_said() -> None:
    with pytest.raises(ValueError, match='"proxy" is neither an address nor a network'):
        read_networks(["proxy"])
