"""The one entry of web servers: Django, and beside it the keepers' application and the browsers' websockets."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
django.setup(set_prefix=False)
# Seconds until a thread that computes lets another one go on. Storing reports stops at each statement, and with
# Python's 5 ms waits for a busy page each time: beside one a report took 19 ms, and so 6.
sys.setswitchinterval(0.0005)

from nniweb.process.absent_library import as_if_absent  # noqa: E402

# Django REST framework has a client for tests that uses it, and loads it always: 30 ms of a start
with as_if_absent("requests"):
    import rest_framework.compat  # noqa: F401

from channels.auth import AuthMiddlewareStack  # noqa: E402  # needs Django to be set up, like those below
from channels.routing import URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402
from django.urls import get_resolver  # noqa: E402

from nniweb.database.connection_limits import announce, warn_if_too_few  # noqa: E402
from nniweb.http.asgi import ASGIReceiveCallable, ASGISendCallable, Scope  # noqa: E402
from nniweb.http.one_thread_handler import OneThreadHandler  # noqa: E402
from nniweb.http.proxies import behind_proxies  # noqa: E402
from nniweb.http.shortage import come_again_when_short  # noqa: E402
from nniweb.keeperapi.application import KeeperApplication  # noqa: E402
from nniweb.live.routing import websocket_urlpatterns  # noqa: E402
from nniweb.live.signed_in import signed_in_only  # noqa: E402
from nniweb.mcp_server.address import is_for_mcp  # noqa: E402
from nniweb.middleware.allowances import ANYBODYS_BYTES  # noqa: E402
from nniweb.middleware.backpressure import with_backpressure  # noqa: E402
from nniweb.middleware.body_size import not_too_large  # noqa: E402
from nniweb.middleware.origins import own_pages_only  # noqa: E402
from nniweb.middleware.require_tls import not_in_the_clear  # noqa: E402
from nniweb.middleware.senders import may_send  # noqa: E402
from nniweb.observability import probes, traces  # noqa: E402
from nniweb.process.freed_memory import give_back_regularly, use_few_arenas  # noqa: E402
from nniweb.process.garbage import leave_alone_what_is_loaded  # noqa: E402
from nniweb.upgrades.refusal import too_new_or_unknown  # noqa: E402
from nniweb.web_server.server import take_the_place_of_daphnes  # noqa: E402
from trialkeeper import contract  # noqa: E402

use_few_arenas()  # before the first thread
announce()


def _too_new() -> str:
    try:
        why_not = too_new_or_unknown()
        if not why_not:
            warn_if_too_few()
        return why_not
    finally:
        connection.close()


# in a thread: some web servers load their applications on an event loop
with ThreadPoolExecutor(1) as _pool:
    if _why_not := _pool.submit(_too_new).result():
        sys.exit(_why_not)

_pages: Any = OneThreadHandler()
django_application: Any = not_too_large(_pages, may_send)
_probes = not_too_large(probes.probe_application, lambda scope: ANYBODYS_BYTES)
get_resolver().url_patterns  # noqa: B018  # loads the pages and REST now, not while the first visitor waits
keeper_application = KeeperApplication()
mcp_application: Any = None
if settings.MCP:  # off, nothing of it is loaded
    from nniweb.mcp_server.http_application import mcp_server

    mcp_application = mcp_server(django_application)
websocket_application: Any = own_pages_only(AuthMiddlewareStack(signed_in_only(URLRouter(websocket_urlpatterns))))
traces.start_if_wanted()
leave_alone_what_is_loaded()
take_the_place_of_daphnes()
give_back_regularly()


async def _routed(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    if scope["type"] == "http" and scope["path"].startswith(contract.URL_PREFIX):
        await keeper_application(scope, receive, send)  # its own limits are lower
    elif scope["type"] == "http" and mcp_application is not None and is_for_mcp(scope):
        await mcp_application(scope, receive, with_backpressure(send))
    elif scope["type"] == "http":
        await django_application(scope, receive, with_backpressure(send))
    elif scope["type"] == "websocket":
        await websocket_application(scope, receive, send)
    else:
        raise ValueError(f"nothing is served here for connections of type {scope['type']!r}")


_guarded = not_in_the_clear(behind_proxies(come_again_when_short(_routed), settings.TRUSTED_PROXIES),
                            allowed=settings.MAY_BE_REACHED)


async def application(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Everything but the probes, which say nothing worth hiding, passes the middleware first."""
    if scope["type"] == "http" and scope["path"] in probes.PATHS:
        await _probes(scope, receive, send)
    else:
        await _guarded(scope, receive, send)
