"""A file that is written from pieces, and appears whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nniweb.client.errors import ClientError


def write_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the pieces, one after the other, as one file. Raises ClientError, and what making the pieces raises."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        with open(draft, "wb") as file:
            for piece in pieces:
                file.write(piece)
        draft.replace(path)
    except OSError as error:
        raise ClientError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)
