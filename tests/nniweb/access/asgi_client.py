"""One call of the whole application as a web server makes it, with a person's session."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from asgiref.testing import ApplicationCommunicator
from channels.testing import WebsocketCommunicator
from django.test import Client

from nniweb.asgi import application
from nniweb.experiments.models import User
from nniweb.live.signed_in import NOT_SIGNED_IN

#: Seconds an answer may take.
PATIENCE = 60.0


def cookie_of(person: User | None) -> bytes:
    if person is None:
        return b""
    client = Client()
    client.force_login(person)
    return f"sessionid={client.cookies['sessionid'].value}".encode()


def status_of(method: str, path: str, cookie: bytes = b"", host: bytes = b"localhost",
              origin: bytes = b"http://localhost", **more: Any) -> str:
    """The status; of a websocket the code it is closed with, 403 where its handshake is refused, else "open"."""
    headers = [(b"host", host), (b"cookie", cookie), (b"origin", origin)]
    exchange: Coroutine[Any, Any, str] = _websocket(path, headers) if method == "WEBSOCKET" else _http(
        {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
         "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "http_version": "1.1",
         "scheme": "http", **more})
    return asyncio.run(exchange)


async def _http(scope: dict[str, Any]) -> str:
    communicator = ApplicationCommunicator(application, scope)
    await communicator.send_input({"type": "http.request", "body": b"{}"})
    answer = await communicator.receive_output(PATIENCE)
    while (await communicator.receive_output(PATIENCE)).get("more_body"):
        pass
    return str(answer["status"])


async def _websocket(path: str, headers: list[tuple[bytes, bytes]]) -> str:
    communicator = WebsocketCommunicator(application, path, headers=headers)
    connected, code = await communicator.connect(timeout=PATIENCE)
    if not connected:
        return "403"
    message = await communicator.receive_output(timeout=PATIENCE)
    await communicator.disconnect()
    return str(message["code"]) if message["type"] == "websocket.close" else "open"


__all__ = ["NOT_SIGNED_IN", "cookie_of", "status_of"]
