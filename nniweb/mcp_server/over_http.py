"""REST for tools in a program of its own: requests to a server over HTTP, with the client's connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from nniweb.client.code_upload import FormBody
from nniweb.client.connection import LAUNCH_TIMEOUT, Client
from nniweb.client.errors import CannotReach
from nniweb.mcp_server.rest import Changed
from nniweb.middleware.require_tls import is_loopback
from trainingservice.local.shell import shell_document

#: Seconds between two looks of one who waits: there is no bell over HTTP.
LOOK_SECONDS = 1.0


class OverHttpRest:
    """``client`` is used by one thread at a time; waits hold it only while they look."""

    def __init__(self, client: Client) -> None:
        self.shell = shell_document() if is_loopback(urlsplit(client.server).hostname or "") else ""
        self._client = client
        self._turn = anyio.Lock()

    async def ask(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None,
                  form: Callable[[], FormBody] | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """As ``rest.Rest`` says. A request is sent again while the server is away where that is harmless."""
        call = partial(self._ask, method, path, query or {}, body, form, headers or {})
        async with self._turn:
            return await anyio.to_thread.run_sync(call)

    @asynccontextmanager
    async def watching(self, experiment: str) -> AsyncIterator[Changed]:
        """As ``rest.Rest`` says."""

        async def changed(seconds: float) -> None:
            await anyio.sleep(min(seconds, LOOK_SECONDS))

        yield changed

    def _ask(self, method: str, path: str, query: Mapping[str, Any], body: Any,
             form: Callable[[], FormBody] | None, headers: Mapping[str, str]) -> Any:
        shown = {name: ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool)
                 else str(value) for name, value in query.items() if value is not None}
        # a key makes a launch harmless to repeat
        repeat = True if method == "GET" or "Idempotency-Key" in headers else None
        more: dict[str, Any] = {} if body is None else {"json": body}
        response = self._client.request(method, path, params=shown, form=form, headers=headers, may_repeat=repeat,
                                        timeout=LAUNCH_TIMEOUT, **more)
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise CannotReach(f"{response.url} did not answer with JSON. Check that the address is that of NNI Web and "
                              "not of a proxy or log-in page in front of it.") from None
