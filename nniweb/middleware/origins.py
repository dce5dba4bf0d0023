"""Whether a browser's page that asks is one of ours: scheme, host and port of its origin are those it asks at.

Another port of the same host is another program, whose pages must not open a websocket with a visitor's cookie: cookies
know no ports.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

Origin = tuple[str, str, int | None]

_PORTS = {"http": 80, "https": 443}


def own_pages_only(application: ASGI3Application) -> ASGI3Application:
    """Refuses the handshakes of websockets that no page of ours asks for. Stands behind ``behind_proxies``."""

    async def guarded(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if comes_from_own_page(scope):
            await application(scope, receive, send)
        else:
            while (await receive())["type"] != "websocket.connect":
                pass
            await send({"type": "websocket.close"})  # before it is accepted: the handshake is answered with 403

    return guarded


def comes_from_own_page(scope: Scope) -> bool:
    """Whether there is an origin, and it is the address that the request itself names, or NNIWEB_PUBLIC_URL."""
    origin = read_origin(_only(scope, b"origin"))
    if origin is None:
        return False
    if settings.PUBLIC_URL and origin == read_origin(settings.PUBLIC_URL):
        return True
    host = _only(scope, b"host")
    scheme = "https" if scope.get("scheme") in ("https", "wss") else "http"
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS) \
        and origin == read_origin(f"{scheme}://{host}")


def read_origin(address: str) -> Origin | None:
    """Scheme, host and port of an address; None for what has none, such as the origin "null"."""
    try:
        parts = urlsplit(address)
        return (parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]) if parts.hostname else None
    except (ValueError, KeyError):
        return None


def _only(scope: Scope, wanted: bytes) -> str:
    """A header that is there once."""
    found = [value for name, value in scope["headers"] if name.lower() == wanted]
    return found[0].decode("latin-1") if len(found) == 1 else ""
