"""What the client writes: files, and the progress of a search to a stream that may be closed before it has ended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TextIO

from nniweb.client.errors import ClientError


class Output(Protocol):
    """What is used of a stream."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...

    def isatty(self) -> bool: ...


class MayBeClosed:
    """Writes for as long as somebody reads; after that the search goes on, and nothing is written."""

    def __init__(self, stream: TextIO | None) -> None:
        """``stream``: None where the process has none, as ``sys.stdout`` of one that was started without."""
        self._stream = stream

    def write(self, text: str) -> None:
        if self._stream is not None:
            try:
                self._stream.write(text)
            except (OSError, ValueError):
                self._stream = None

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None

    def isatty(self) -> bool:
        try:
            return self._stream is not None and self._stream.isatty()
        except ValueError:  # it is closed
            return False


def write_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the pieces as one file, which appears whole or not at all. Raises ClientError, and what making the pieces
    raises.
    """
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
