"""Passwords, sessions and tokens do not cross a network in the clear, unless somebody has said that they may.

Loopback is no network. Elsewhere there must be TLS in front, which the settings tell: NNIWEB_PUBLIC_URL begins with
``https://``, or NNIWEB_TRUSTED_PROXIES names who stands in front. NNIWEB_PLAIN_HTTP=1 says that it may be in the clear.
"""

import ipaddress
import socket
from functools import lru_cache
from typing import Any

from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.http.proxies import Address

WHAT_TO_DO = ("Put a proxy with TLS in front, let this server listen on 127.0.0.1 or name the proxy in "
              "NNIWEB_TRUSTED_PROXIES, and set NNIWEB_PUBLIC_URL=https://... (docs/deploy shows how). If you trust the "
              "network with unencrypted passwords and tokens, set NNIWEB_PLAIN_HTTP=1.")


def is_loopback(host: str) -> bool:
    """Whether a server that listens there is heard by this machine alone. Blocking where the host is a name."""
    try:
        found = [ipaddress.ip_address(host)]
    except ValueError:
        try:
            found = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0])
                     for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        except OSError:
            return False
    return all(address.is_loopback for address in found)


def why_not_listen(host: str, *, allowed: bool) -> str:
    """Why the server must not listen there, "" where it may. ``allowed``: settings.MAY_BE_REACHED."""
    if allowed or is_loopback(host):
        return ""
    return (f"The server would listen on {host}, which other machines can reach, and TLS is not configured. Passwords "
            f"and tokens would cross the network unencrypted. {WHAT_TO_DO}")


def not_in_the_clear(application: ASGI3Application, *, allowed: bool) -> ASGI3Application:
    """The application; unless ``allowed``, connections to an address that others can reach get 403.

    For servers that are started without ``manage.py serve``, which nothing keeps from listening anywhere.
    """
    if allowed:
        return application

    async def guarded(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] in ("http", "websocket") and _came_from_outside(scope):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})
                return
            await send({"type": "http.response.start", "status": 403, "headers": [
                (b"content-type", b"text/plain; charset=utf-8")]})
            await send({"type": "http.response.body",
                        "body": f"TLS is not configured. {WHAT_TO_DO}\n".encode()})
            return
        await application(scope, receive, send)

    return guarded


def _came_from_outside(scope: Scope) -> bool:
    """Whether the connection ends at an address of this machine that is not loopback."""
    server: Any = scope.get("server")
    return _can_be_reached(str(server[0]) if server else "")


@lru_cache(64)  # a machine has few addresses, and each request comes to one of them
def _can_be_reached(host: str) -> bool:
    try:
        address: Address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False  # a socket file, or the name that a test's client uses
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return not (mapped or address).is_loopback
