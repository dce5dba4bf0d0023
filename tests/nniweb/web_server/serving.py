"""A program: the web server with a small application, for what is tried on real sockets.

    python serving.py '{"headers_seconds": 0.5}'        # prints its port when it listens; ends with its standard input

``/whole``: reads the body and answers its size. ``/refused``: answers 413 and reads nothing. ``/counted``: how many
requests have begun, and how many bytes of bodies the application was given. ``/gone``: how many senders of bodies for
``/written`` went away. ``/patient``: takes the first piece of the body, and the others when ``/go`` is asked for.
``/large``: an answer of 32 MiB in pieces, ``/at_once``: one of 4 MiB in one piece. ``/short``: half of
an answer, ``/broken``: half of one, and then the application fails; ``/failing``: it fails before. ``/written``: two
threads write the body, as of checkpoints, and the answer is its SHA-256; ``/full``: writing fails at the third MiB.
``/root``: what is said to stand before all paths. Websockets: ``/echo`` sends back, ``/root`` says as above,
``/never`` is not decided.
"""

import asyncio
import hashlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings

settings.configure(TRUSTED_PROXIES=())

from nniweb.http.asgi import REST_OF_BODY  # noqa: E402
from nniweb.keeperapi.bodies import SenderGone, write_body  # noqa: E402
from nniweb.middleware.allowances import Allowances  # noqa: E402
from nniweb.middleware.backpressure import with_backpressure  # noqa: E402
from nniweb.web_server.server import Server  # noqa: E402

begun = given = gone = 0
go = asyncio.Event()
writers = ThreadPoolExecutor(2)


class Written:
    """A body as it is written. ``room``: bytes after which that fails."""

    def __init__(self, room: int) -> None:
        self.digest, self.room, self.is_closed = hashlib.sha256(), room, False

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        global given
        for piece in pieces:
            self.room -= len(piece)
            if self.room < 0:
                raise OSError("no room")
            self.digest.update(piece)
            given += len(piece)

    def close(self) -> None:
        self.is_closed = True


async def written(scope: Any, receive: Any, send: Any) -> None:
    global gone
    body = Written(3 * 2**20 if scope["path"] == "/full" else 2**62)
    rest = scope.get("extensions", {}).get(REST_OF_BODY)
    try:
        await write_body(receive, 2**62, 2**62, lambda: None, writers, body, rest)
    except OSError:
        assert body.is_closed
        await answer(send, 503, "no room")
    except SenderGone:
        assert body.is_closed
        gone += 1
    else:
        await answer(send, 200, body.digest.hexdigest())


async def application(scope: Any, receive: Any, send: Any) -> None:
    global begun, given
    if scope["type"] == "websocket":
        await websocket(scope, receive, send)
        return
    path = scope["path"]
    if path == "/counted":
        await answer(send, 200, json.dumps({"begun": begun, "given": given}))
        return
    if path in ("/gone", "/root"):
        await answer(send, 200, str(gone) if path == "/gone" else scope["root_path"])
        return
    begun += 1
    if path in ("/written", "/full"):
        await written(scope, receive, send)
        return
    if path == "/refused":
        await answer(send, 413, "too large")
        return
    if path == "/go":
        go.set()
    if path == "/at_once":
        await answer(send, 200, "x" * 4 * 2**20)
        return
    if path in ("/short", "/broken"):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"01234", "more_body": path == "/broken"})
    if path in ("/broken", "/failing"):
        raise OSError("the disk is broken")
    if path == "/short":
        return
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
    if scope["path"] == "/root":
        await send({"type": "websocket.send", "text": json.dumps(scope["root_path"])})  # nothing is sent of ""
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
