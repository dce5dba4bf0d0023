"""How large a request may be, whoever answers it: refused before anything of it is kept, if its length is said."""

from collections.abc import MutableMapping
from typing import Any

from nniweb.doors.proxies import Application, Receive, Scope, Send

#: The largest code archive that is taken has room, in bytes. Single doors take less: JSON 16 MiB, a report 4 MiB.
MOST_BYTES = 512 * 1024 * 1024


def not_too_large(application: Application, most: int = MOST_BYTES) -> Application:
    """The application; larger requests are answered with 413, by what they say of themselves or when it turns out."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        lengths = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
        if any(not value.isdigit() or int(value[:20]) > most for value in lengths):
            await _refuse(send, most)
            return
        size, is_refused = 0, False

        async def counted() -> Any:
            nonlocal size, is_refused
            if is_refused:
                return {"type": "http.disconnect"}
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                is_refused = True
                await _refuse(send, most)
                return {"type": "http.disconnect"}
            return message

        async def unless_refused(message: MutableMapping[str, Any]) -> None:
            if not is_refused:
                await send(message)

        await application(scope, counted, unless_refused)

    return limited


async def _refuse(send: Send, most: int) -> None:
    await send({"type": "http.response.start", "status": 413, "headers": [
        (b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]})
    await send({"type": "http.response.body",
                "body": f"A request may have at most {most // 2**20} MiB, and says its length in figures.\n".encode()})
