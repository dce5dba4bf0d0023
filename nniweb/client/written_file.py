"""A file that is written from pieces, and appears whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nniweb.client.errors import ClientError


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """Where to write, as a new file, what is ``path`` when this ends without an error; else nothing is left of it.

    Its name is one that nobody knows before: others may write to the folder, too, and put a link there.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the pieces, one after the other, as one file. Raises ClientError, and what making the pieces raises."""
    try:
        with drafted(path) as draft, open(draft, "xb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise ClientError(f"{path} cannot be written: {error.strerror}.") from None
