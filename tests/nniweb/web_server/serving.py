"""A program: the web server with a small application, for what is tried on real sockets.

    python serving.py '{"headers_seconds": 0.5}'        # prints its port when it listens; ends with its standard input

``/whole``: reads the body and answers its size. ``/refused``: answers 413 and reads nothing. ``/counted``: how many
requests have begun, and how many bytes of bodies the application was given. ``/patient``: takes the first piece of
the body, and the others when ``/go`` is asked for. ``/large``: an answer of 32 MiB in pieces.
Websockets: ``/echo`` sends back, ``/never`` is not decided.
"""

import asyncio
import json
import os
import sys
import threading
from typing import Any

from django.conf import settings

settings.configure(TRUSTED_PROXIES=())

from nniweb.middleware.allowances import Allowances  # noqa: E402
from nniweb.middleware.backpressure import with_backpressure  # noqa: E402
from nniweb.web_server.server import Server  # noqa: E402

begun = given = 0
go = asyncio.Event()


async def application(scope: Any, receive: Any, send: Any) -> None:
    global begun, given
    if scope["type"] == "websocket":
        await websocket(scope, receive, send)
        return
    path = scope["path"]
    if path == "/counted":
        await answer(send, 200, json.dumps({"begun": begun, "given": given}))
        return
    begun += 1
    if path == "/refused":
        await answer(send, 413, "too large")
        return
    if path == "/go":
        go.set()
    if path == "/large":
        send = with_backpressure(send)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(32):
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        given += len(message["body"])
        more = message["more_body"]
        if path == "/patient" and size:
            await go.wait()
    await answer(send, 200, str(size))


async def answer(send: Any, status: int, text: str) -> None:
    await send({"type": "http.response.start", "status": status,
                "headers": [(b"content-length", str(len(text)).encode())]})
    await send({"type": "http.response.body", "body": text.encode()})


async def websocket(scope: Any, receive: Any, send: Any) -> None:
    global begun, given
    await receive()
    begun += 1
    if scope["path"] == "/never":
        await go.wait()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        given += len(message["text"])
        if scope["path"] == "/patient":
            await go.wait()
        await send({"type": "websocket.send", "text": message["text"]})


def main() -> None:
    def listens() -> None:
        sys.stdout.write(f"{server.listening_addresses[0][1]}\n")
        sys.stdout.flush()

    def end_with_the_test() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_the_test, daemon=True).start()
    server = Server(application, allowances=Allowances(**json.loads(sys.argv[1])), ready_callable=listens, verbosity=0,
                    endpoints=["tcp:port=0:interface=127.0.0.1"], signal_handlers=False, http_timeout=None,
                    websocket_connect_timeout=1)
    server.run()


if __name__ == "__main__":
    main()
