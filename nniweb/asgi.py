"""The one entry of web servers: Django, and beside it the keepers' application."""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
django_application: Any = get_asgi_application()

from nniweb.keeperapi.application import KeeperApplication  # noqa: E402  # needs Django to be set up
from trialkeeper import contract  # noqa: E402

keeper_application = KeeperApplication()


async def application(scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]],
                      send: Callable[[Any], Awaitable[None]]) -> None:
    if scope["type"] == "http" and scope["path"].startswith(contract.URL_PREFIX):
        await keeper_application(scope, receive, send)
    elif scope["type"] == "http":
        await django_application(scope, receive, send)
    else:
        raise ValueError(f"nothing is served here for connections of type {scope['type']!r}")
