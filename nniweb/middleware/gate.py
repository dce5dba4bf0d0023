"""What a server answers while it is not open yet: the probes as ever, and to all others that they may come again."""

from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.observability.probes import PATHS, probe_application

#: Seconds after which who was turned away is to come again.
RETRY_AFTER = 5
_TEXT = (b"The server is being started and cannot answer yet; /readyz says what it waits for. Running trials go on and "
         b"their reports wait with them.\n")


class Gate:
    """An ASGI application that stands before another one, which comes later. ``open`` may be called from any thread."""

    def __init__(self) -> None:
        self._application: ASGI3Application | None = None

    def open(self, application: ASGI3Application) -> None:
        """From now on this one answers."""
        self._application = application

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if self._application is not None:
            await self._application(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] in PATHS:
            await probe_application(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 503, "headers": [
                (b"content-type", b"text/plain; charset=utf-8"), (b"retry-after", str(RETRY_AFTER).encode()),
                (b"cache-control", b"no-store"), (b"content-length", str(len(_TEXT)).encode())]})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else _TEXT})
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})
