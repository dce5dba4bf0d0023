"""An agent: the official SDK's client, and the server's application in this process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from nniweb import asgi

Value = TypeVar("Value")
ADDRESS = "http://localhost/mcp/"


@asynccontextmanager
async def connection(token: str | None, scheme: str = "Bearer", **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Requests to the whole application, as a web server hands them to it."""
    given = headers | ({} if token is None else {"authorization": f"{scheme} {token}"})
    transport = httpx2.ASGITransport(app=asgi.application)
    async with httpx2.AsyncClient(transport=transport, headers=given, timeout=60) as http:
        yield http


def with_agent(token: str, do: Callable[[Client], Awaitable[Value]], mode: str = "auto") -> Value:
    """What ``do`` makes of a connected client."""

    async def run() -> Value:
        async with connection(token) as http, Client(
                streamable_http_client(ADDRESS, http_client=http), mode=mode) as client:  # type: ignore[arg-type]
            return await do(client)

    return asyncio.run(run())


def post(token: str | None, body: Any, **headers: str) -> httpx2.Response:
    """One message as it is, without a client."""

    async def run() -> httpx2.Response:
        async with connection(token) as http:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return await http.post(ADDRESS, content=content, headers={
                "accept": "application/json, text/event-stream", "content-type": "application/json", **headers})

    return asyncio.run(run())


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}


def call_of(tool: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "arguments": arguments})


def said(result: Any) -> str:
    """The text of a result."""
    return "\n".join(part.text for part in result.content)


def status_of(result: Any) -> int:
    """What REST answered: 200 where it was no error."""
    if not result.is_error:
        return 200
    found = re.match(r"[A-Z][a-z ]+ \((\d{3})\)\.", said(result))
    assert found is not None, said(result)
    return int(found.group(1))
