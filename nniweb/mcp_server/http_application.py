"""The MCP server at ``/mcp/``: streamable HTTP, beside Django in ``asgi``. Without sessions, so that each request may
come to another web process. Only tokens count; cookies are not looked at.
"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from nniweb.client.errors import ClientError, Refused
from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.mcp_server.in_process import InProcessRest
from nniweb.mcp_server.server import make_server
from nniweb.middleware.body_size import not_too_large
from nniweb.middleware.origins import comes_from_own_page
from nniweb.middleware.senders import may_send

#: Bytes of a request: the code that the tool launch takes has room.
MOST_BYTES = 4 * 1024 * 1024


def mcp_server(django: ASGI3Application) -> ASGI3Application:
    """An ASGI application for HTTP. ``django``: what answers REST. Stands behind the middleware of all applications."""
    limited = not_too_large(_McpApplication(django), may_send)

    async def with_token_alone(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        headers = [(name, _as_rest_reads_it(value) if name.lower() == b"authorization" else value)
                   for name, value in scope["headers"] if name.lower() != b"cookie"]
        await limited({**scope, "headers": headers}, receive, send)

    return with_token_alone


def _as_rest_reads_it(authorization: bytes) -> bytes:
    """Clients of MCP say Bearer where REST says Token."""
    scheme, _, secret = authorization.strip().partition(b" ")
    return b"Token " + secret.strip() if scheme.lower() == b"bearer" else authorization


class _McpApplication:

    def __init__(self, django: ASGI3Application) -> None:
        self._django = django
        self._server = make_server(self._rest_of)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if (refusal := _refusal_of_headers(scope)) is None:
            try:  # REST says whether the token is good, and counts the request
                await InProcessRest(self._django, scope).ask("GET", "account/")
            except Refused as refused:
                refusal = refused.status, str(refused)
            except ClientError as error:
                refusal = 503, str(error)
        if refusal is not None:
            await _refuse(send, *refusal, has_body=scope["method"] != "HEAD")
            return
        # made for one request: it has no state, and its tasks end with the request
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True,
                                               max_request_body_size=MOST_BYTES)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    def _rest_of(self, context: ServerRequestContext[Any, Any]) -> InProcessRest:
        assert context.request is not None  # over HTTP there is one
        return InProcessRest(self._django, context.request.scope)


def _refusal_of_headers(scope: Scope) -> tuple[int, str] | None:
    """Status and sentence, by what is known before the token. The host and origin are those of pages: settings say
    which hosts there are, also with wildcards, which the SDK's own check does not know.
    """
    names = [name.lower() for name, _ in scope["headers"]]
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"host"]
    if len(hosts) != 1 or not validate_host(split_domain_port(hosts[0])[0], settings.ALLOWED_HOSTS):
        return 421, ("This server is not known under that name. NNIWEB_ALLOWED_HOSTS and NNIWEB_PUBLIC_URL say its "
                     "names.")
    if b"origin" in names and not comes_from_own_page(scope):
        return 403, "A page of another site may not use this server. Programs send no Origin."
    if scope["method"] != "POST":
        return 405, "Only POST: there are no sessions and no streams that the server begins."
    return None


async def _refuse(send: ASGISendCallable, status: int, message: str, *, has_body: bool) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}).encode()
    more = {401: [(b"www-authenticate", b'Bearer realm="NNI Web"')], 405: [(b"allow", b"POST")],
            429: [(b"retry-after", b"60")], 503: [(b"retry-after", b"5")]}.get(status, [])
    await send({"type": "http.response.start", "status": status, "headers": [
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"), *more]})
    await send({"type": "http.response.body", "body": body if has_body else b""})
