"""``/healthz`` and ``/readyz``, beside Django: who asks has no session, and often only an IP address as host name."""

import asyncio
from dataclasses import asdict
from typing import Any

import orjson

from nniweb.http.asgi import ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.observability.readiness import Check, readiness
from trialkeeper.shortage import is_shortage

PATHS = ("/healthz", "/readyz")


async def probe_application(scope: Scope, _receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Answers GET and HEAD on PATHS. ``/healthz`` only says that the process and its event loop live."""
    document: dict[str, Any]
    if scope["method"] not in ("GET", "HEAD"):
        status, document = 405, {"message": "Only GET is answered here."}
    elif scope["path"] == "/healthz":
        status, document = 200, {"alive": True}
    else:
        try:
            ready, document = await asyncio.to_thread(readiness)
        except (RuntimeError, MemoryError) as error:
            if not is_shortage(error):
                raise
            check = Check("threads", False, "The machine has no thread to spare for this request. Raise its limit on "
                                            "processes and threads, or end programs that use too many.")
            ready, document = False, {"ready": False, "checks": [asdict(check)], "warnings": []}
        status = 200 if ready else 503
    body = orjson.dumps(document)
    await send({"type": "http.response.start", "status": status, "headers": [
        (b"content-type", b"application/json"), (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
