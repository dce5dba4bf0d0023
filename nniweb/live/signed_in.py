"""Websockets are for people who are signed in, whichever consumer answers: a new one need not think of it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Application = Callable[[MutableMapping[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]],
                       Awaitable[None]]

#: Closing code, which the page knows.
NOT_SIGNED_IN = 4401


def signed_in_only(application: Application) -> Application:
    """Closes the websockets of others with NOT_SIGNED_IN. Stands behind the middleware that finds ``scope["user"]``."""

    async def guarded(scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]],
                      send: Callable[[Any], Awaitable[None]]) -> None:
        user = scope.get("user")
        if user is not None and user.is_authenticated:
            await application(scope, receive, send)
            return
        while (await receive())["type"] != "websocket.connect":
            pass
        await send({"type": "websocket.accept"})  # closed after accepting: a refused handshake tells a page nothing
        await send({"type": "websocket.close", "code": NOT_SIGNED_IN})

    return guarded
