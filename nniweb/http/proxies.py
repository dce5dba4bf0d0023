"""Whose word is taken for where a request comes from: only that of the proxies in NNIWEB_TRUSTED_PROXIES.

Behind this, ``scope["client"]`` is the visitor's own address and ``scope["scheme"]`` what the visitor used, for pages,
keepers and websockets alike; the X-Forwarded headers are gone, so nobody can believe them by accident.
"""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from trainingservice.words.shown_value import shown

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_FORWARDED = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"forwarded")
_SECURE = {"http": "https", "ws": "wss"}


def read_networks(written: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks (``10.0.0.0/8``). Raises ValueError with a sentence."""
    networks = []
    for text in written:
        try:
            networks.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise ValueError(f"{shown(text)} is neither an address nor a network such as 10.0.0.0/8") from None
    return tuple(networks)


def behind_proxies(application: ASGI3Application, trusted: Sequence[Network]) -> ASGI3Application:
    """The application, seeing requests as the trusted proxies in front of it saw them."""

    async def seen(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] in ("http", "websocket"):
            scope = as_the_proxy_saw_it(scope, trusted)
        await application(scope, receive, send)

    return seen


def as_the_proxy_saw_it(scope: Scope, trusted: Sequence[Network]) -> Scope:
    """The scope with the visitor's address and scheme, and without X-Forwarded headers."""
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _FORWARDED]
    seen = {**scope, "headers": headers}
    client = scope.get("client")
    if not client or not is_trusted(client[0], trusted):
        return seen
    said = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    hops = [hop.strip() for name, value in said if name == b"x-forwarded-for" for hop in value.split(",")]
    # each proxy adds on the right whom it saw; the first from there that is none of ours is the visitor
    for hop in reversed(hops):
        if _address(hop) is None:
            break
        seen["client"] = (hop, 0)
        if not is_trusted(hop, trusted):
            break
    schemes = [part.strip().lower() for name, value in said if name == b"x-forwarded-proto"
               for part in value.split(",")]
    if schemes and schemes[-1] in ("https", "wss"):
        scheme = scope.get("scheme", "http")
        seen["scheme"] = _SECURE.get(scheme, scheme)
    return seen


def is_trusted(text: str, trusted: Sequence[Network]) -> bool:
    address = _address(text)
    return address is not None and any(address in network for network in trusted)


@lru_cache(4096)  # asked of each request, and nearly all come from the same few
def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
