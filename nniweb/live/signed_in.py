"""Websockets are for people who are signed in, and while they are; whichever consumer answers: a new one need not think
of it.
"""

import asyncio
from typing import Any

from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.live.open_sockets import COME_AGAIN, OpenSocket, open_sockets

#: Closing code, which the page knows.
NOT_SIGNED_IN = 4401


def signed_in_only(application: ASGI3Application) -> ASGI3Application:
    """Closes the websockets of others with NOT_SIGNED_IN, and with COME_AGAIN those whose person has signed out since,
    or may do something else than before. Stands behind the middleware that finds ``scope["user"]``.
    """

    async def guarded(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        user = scope.get("user")
        if user is not None and user.is_authenticated:
            socket = await open_sockets().let_in(user, scope["session"].session_key)
            try:
                await application(scope, _until_it_ends(socket, receive, send), _unless_ended(socket, send))
            finally:
                open_sockets().leave(socket)
            return
        while (await receive())["type"] != "websocket.connect":
            pass
        await send({"type": "websocket.accept"})  # closed after accepting: a refused handshake tells a page nothing
        await send({"type": "websocket.close", "code": NOT_SIGNED_IN})

    return guarded


def _until_it_ends(socket: OpenSocket, receive: ASGIReceiveCallable, send: ASGISendCallable) -> ASGIReceiveCallable:
    """What the browser sends; when the socket must end, it is closed and the application hears that it has gone."""
    is_connected = False

    async def heard() -> Any:
        nonlocal is_connected
        if not is_connected:
            is_connected = True
            return await receive()
        message = asyncio.ensure_future(receive())
        ended = asyncio.ensure_future(socket.ended.wait())
        try:
            await asyncio.wait({message, ended}, return_when=asyncio.FIRST_COMPLETED)
            if socket.ended.is_set():
                await send({"type": "websocket.close", "code": COME_AGAIN})
                return {"type": "websocket.disconnect", "code": COME_AGAIN}
            return message.result()
        finally:
            message.cancel()
            ended.cancel()

    return heard


def _unless_ended(socket: OpenSocket, send: ASGISendCallable) -> ASGISendCallable:
    async def said(message: Any) -> None:
        if not socket.ended.is_set():
            await send(message)

    return said
