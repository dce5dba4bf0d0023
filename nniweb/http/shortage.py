"""What is answered where the machine has no thread, process or memory for a request: that it is to come again.

Each request of Django's needs a thread. Where none can be started the answer would be 500, as for a defect.
"""

import logging

import orjson

from nniweb.http.asgi import ASGI3Application, ASGIEvent, ASGIReceiveCallable, ASGISendCallable, Scope
from trainingservice.lasting_thread import in_short
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

#: Seconds after which who was turned away is to come again.
RETRY_AFTER = 5
SHORT = ("The server's machine has no thread, process or memory to spare at the moment. Running trials continue. Try "
         "again in a few seconds.")
_BODY = orjson.dumps({"errors": [{"field": "", "message": SHORT}], "error": "busy", "message": SHORT})


def come_again_when_short(application: ASGI3Application) -> ASGI3Application:
    """The application; a request that it cannot answer for want of threads or memory gets 503 and ``Retry-After``."""

    async def answered(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        has_begun = is_complete = False

        async def noting(message: ASGIEvent) -> None:
            nonlocal has_begun, is_complete
            has_begun = True
            await send(message)
            is_complete = message["type"] == "http.response.body" and not message.get("more_body")

        # what stands behind looks there for the connection, see middleware.backpressure
        noting.args = getattr(send, "args", ())  # type: ignore[attr-defined]
        try:
            await application(scope, receive, noting)
        except (RuntimeError, OSError, MemoryError) as error:
            if is_complete and is_shortage(error):
                return  # Django had its thread, and none to clear up with
            if has_begun or scope["type"] != "http" or not is_shortage(error):
                raise
            logger.warning("a request cannot be answered: %s", in_short(error))
            await send({"type": "http.response.start", "status": 503, "headers": [
                (b"content-type", b"application/json"), (b"retry-after", str(RETRY_AFTER).encode()),
                (b"cache-control", b"no-store"), (b"content-length", str(len(_BODY)).encode())]})
            await send({"type": "http.response.body", "body": _BODY})

    return answered
