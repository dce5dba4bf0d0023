"""What is sent as a file: headers, as content and name are somebody else's, and long content as it is made."""

import re
from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection
from django.utils.http import content_disposition_header

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def as_attachment(name: str) -> dict[str, str]:
    """No browser shows it as a page, or guesses what it is. Characters of the name that no header can have are ``_``.
    """
    sendable = _CONTROLS.sub("_", name).encode(errors="replace").decode()
    return {"Content-Disposition": content_disposition_header(True, sendable) or "attachment", **SHOWN_AS_NOTHING}


#: Of content that is sent without a name for it.
SHOWN_AS_NOTHING = {"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"}


async def sent(pieces: Iterator[str]) -> AsyncIterator[bytes]:
    """The pieces as the reader takes them: nothing is held open in the database in between."""

    def next_piece() -> str | None:
        try:
            return next(pieces, None)
        finally:
            if not connection.in_atomic_block:  # a test's
                close_old_connections()

    while (piece := await sync_to_async(next_piece, thread_sensitive=True)()) is not None:
        yield piece.encode()
