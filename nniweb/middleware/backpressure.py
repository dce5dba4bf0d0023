"""Answers that come in many pieces wait for whoever reads them: daphne alone would hold all of a large file in memory.

ASGI's ``send`` returns at once under daphne, however full the connection is. Its request is Twisted's, which tells a
producer when to pause, so one stands in for the application here. Other servers' ``send`` waits by itself.
"""

import asyncio

from nniweb.http.asgi import ASGIEvent, ASGISendCallable

#: Seconds after which a reader that takes nothing is given up.
PATIENCE = 600.0


def with_backpressure(send: ASGISendCallable) -> ASGISendCallable:
    """``send`` that returns when there is room for more. The last piece is never held up."""
    request = next((part for part in getattr(send, "args", ()) if hasattr(part, "registerProducer")), None)
    if request is None:
        return send
    tap: _Tap | None = None

    async def patient(message: ASGIEvent) -> None:
        nonlocal tap
        is_piece = message["type"] == "http.response.body"
        is_connected = request.channel is not None  # Twisted forgets it when the reader hangs up
        if is_connected and is_piece and message.get("more_body") and tap is None:
            tap = _Tap()
            request.registerProducer(tap, True)
        elif is_connected and is_piece and not message.get("more_body") and tap is not None:
            request.unregisterProducer()
        await send(message)
        if tap is not None and is_piece and message.get("more_body"):
            await asyncio.wait_for(tap.is_open.wait(), PATIENCE)

    return patient


class _Tap:
    """What Twisted takes for the source of the answer. Called in the event loop's thread."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()

    def pauseProducing(self) -> None:
        self.is_open.clear()

    def resumeProducing(self) -> None:
        self.is_open.set()

    def stopProducing(self) -> None:
        self.is_open.set()  # the connection is gone: what is still sent goes nowhere
