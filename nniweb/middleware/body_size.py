"""How large the body of a request may be. Whose it is counts, and is asked before more than a little of it is read."""

import asyncio
from collections.abc import Callable
from typing import Any

from nniweb.http.asgi import ASGI3Application, ASGIEvent, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.middleware.allowances import ANYBODYS_BYTES

#: How many bytes the sender of this request may send. Called in a thread, at most once for each request.
MayHave = Callable[[Scope], int]


def not_too_large(application: ASGI3Application, may_have: MayHave) -> ASGI3Application:
    """The application; larger requests are answered with 413, by what they say of themselves or when it turns out.

    ``may_have`` is asked of requests with more than ANYBODYS_BYTES alone.
    """

    async def limited(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        length = declared_length(scope["headers"])
        if length is not None and length <= ANYBODYS_BYTES:
            await application(scope, receive, send)  # no server gives more of a body than was declared
            return
        most = None if length is None else await asyncio.to_thread(may_have, scope)
        if length is not None and most is not None and length > most:
            await _refuse(send, most)
            return
        size, is_refused = 0, False

        async def counted() -> Any:
            nonlocal size, is_refused, most
            if is_refused:
                return {"type": "http.disconnect"}
            message = await receive()
            size += len(message.get("body", b""))
            if size > ANYBODYS_BYTES and most is None:
                most = await asyncio.to_thread(may_have, scope)
            if most is not None and size > most:
                is_refused = True
                await _refuse(send, most)
                return {"type": "http.disconnect"}
            return message

        async def unless_refused(message: ASGIEvent) -> None:
            if not is_refused:
                await send(message)

        await application(scope, counted, unless_refused)

    return limited


def declared_length(headers: Any) -> int | None:
    """What Content-Length says, None where there is none. A value that is no number counts as more than anybody may."""
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    if not lengths:
        return None
    return max(int(value.lstrip(b"0")[:20] or b"0") if value.isdigit() else 10**20 for value in lengths)


async def _refuse(send: ASGISendCallable, most: int) -> None:
    may = f"{most // 2**20} MB" if most >= 2**20 else f"{most // 2**10} KB if nobody is signed in"
    await send({"type": "http.response.start", "status": 413, "headers": [
        (b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]})
    await send({"type": "http.response.body",
                "body": f"This request may not have more than {may}.\n".encode()})
