"""REST for tools inside the web process: a request of the caller becomes requests to Django's application, with the
caller's own token, address and host, and with nothing else of theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from channels.db import database_sync_to_async

from nniweb.client.code_upload import FormBody
from nniweb.client.errors import CannotReach, refused
from nniweb.experiments.models import Experiment
from nniweb.experiments.pubsub import doorbell
from nniweb.http.asgi import ASGI3Application, ASGIEvent, Scope
from nniweb.mcp_server.rest import Changed

#: Seconds between two looks of one who waits, at least: an experiment with many short trials rings all the time.
SHORTEST_PAUSE = 1.0
#: Seconds after which it is looked without a ring, which may be lost.
LOOK_SECONDS = 2.0
#: The largest answer that is read, in bytes.
MOST_BYTES = 64 * 1024 * 1024
#: What of the caller's headers a request inside has, too. No cookie: only tokens count.
_KEPT = (b"authorization", b"host", b"user-agent")


class InProcessRest:
    """For one request to the MCP server. ``application``: Django's. ``scope``: the caller's request, as it is behind
    the middleware. For its event loop.
    """

    shell = ""

    def __init__(self, application: ASGI3Application, scope: Scope) -> None:
        self._application = application
        self._scope = scope

    async def ask(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None,
                  form: Callable[[], FormBody] | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """As ``rest.Rest`` says."""
        content, content_type = b"", ""
        if form is not None:
            made = form()
            content, content_type = _whole(made), made.content_type
        elif body is not None:
            content, content_type = json.dumps(body).encode(), "application/json"
        status, answer = await self._exchange(method, f"/api/v1/{path}", query or {}, content, {
            **({"content-type": content_type} if content_type else {}), **(headers or {})})
        try:
            document = json.loads(answer) if answer else None
        except ValueError:
            document = None
        if status >= 400:
            raise refused(status, document) or CannotReach(
                f"The server answered with {status}: {answer[:300].decode('utf-8', 'replace').strip()}")
        return document

    @asynccontextmanager
    async def watching(self, experiment: str) -> AsyncIterator[Changed]:
        """As ``rest.Rest`` says. Holds no thread and no connection to the database."""
        loop, rung, looked = asyncio.get_running_loop(), asyncio.Event(), time.monotonic()
        wanted = await database_sync_to_async(_primary_key)(experiment)

        def heard(experiment_pk: int) -> None:  # in the thread that rings
            if experiment_pk == wanted:
                with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
                    loop.call_soon_threadsafe(rung.set)

        async def changed(seconds: float) -> None:
            nonlocal looked
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), min(seconds, LOOK_SECONDS))
            rung.clear()
            await asyncio.sleep(max(0.0, min(seconds, SHORTEST_PAUSE - (time.monotonic() - looked))))
            looked = time.monotonic()

        with doorbell.listening(heard):
            yield changed

    async def _exchange(self, method: str, path: str, query: Mapping[str, Any], content: bytes,
                        headers: Mapping[str, str]) -> tuple[int, bytes]:
        sent = [(name, value) for name, value in self._scope["headers"] if name.lower() in _KEPT]
        sent += [(b"accept", b"application/json"), (b"content-length", str(len(content)).encode())]
        sent += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        scope = {**self._scope, "type": "http", "method": method, "path": path, "raw_path": path.encode(),
                 "query_string": urlencode(_written(query), errors="replace").encode(), "headers": sent}
        never, given = asyncio.Event(), False
        status, size = 500, 0
        pieces: list[bytes] = []

        async def receive() -> ASGIEvent:
            nonlocal given
            if given:
                await never.wait()  # the caller's disconnect ends this task
            given = True
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(event: ASGIEvent) -> None:
            nonlocal status, size
            if event["type"] == "http.response.start":
                status = event["status"]
            elif event["type"] == "http.response.body":
                size += len(event.get("body", b""))
                if size > MOST_BYTES:
                    raise CannotReach(f"The server's answer has more than {MOST_BYTES // 2**20} MB. Ask for less.")
                pieces.append(event.get("body", b""))

        await self._application(scope, receive, send)
        return status, b"".join(pieces)


def _primary_key(public_id: str) -> int | None:
    return Experiment.objects.filter(public_id=public_id).values_list("pk", flat=True).first()


def _whole(form: FormBody) -> bytes:
    pieces = []
    while piece := form.read():
        pieces.append(piece)
    return b"".join(pieces)


def _written(query: Mapping[str, Any]) -> dict[str, str]:
    """Without what is None; lists with commas, truth in small letters."""
    shown = {bool: lambda value: str(value).lower(), list: ",".join}
    return {name: shown.get(type(value), str)(value) for name, value in query.items() if value is not None}
