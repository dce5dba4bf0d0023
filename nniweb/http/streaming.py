"""Long answers, sent as they are made."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection


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
