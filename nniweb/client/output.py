"""Where the progress of a search is written: a stream that may be closed before the search has ended."""

from __future__ import annotations

from typing import Protocol, TextIO


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
