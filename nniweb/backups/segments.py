"""The compressed file of a backup that is being written: gzip files one behind another, which readers take for one.

Each of them is flushed to the disk and then noted in a journal beside the file, so that a writer that was interrupted
goes on behind the last one (``sound``).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

#: Bytes, not compressed, after which a segment is ended.
SEGMENT = 32 * 1024 * 1024
_LEVEL, _GZIP = 3, 31
_PIECE = 1024 * 1024


@dataclass
class Packed:
    """What is in the file up to the end of a segment."""

    #: Bytes of the file, and of the tar in it.
    packed: int = 0
    plain: int = 0
    #: Name -> SHA-256 of the files that are whole in it.
    members: dict[str, str] = field(default_factory=dict)
    #: The file in the middle of which it ends: its name, size, and the place in the tar where it begins.
    inside: tuple[str, int, int] | None = None


class Segments:
    """For ``tarfile``, which writes to it. Used by one thread."""

    def __init__(self, file: IO[bytes], journal: IO[bytes] | None, so_far: Packed) -> None:
        """``file`` and ``journal`` end where ``so_far`` does. Without a journal all is one segment."""
        self._file, self._journal, self._plain, self._begun = file, journal, so_far.plain, so_far.plain
        self._packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
        self._members: dict[str, str] = {}
        #: The file that is being added, where a segment may end in the middle of it.
        self.inside: tuple[str, int, int] | None = None

    def tell(self) -> int:
        """Bytes of the tar."""
        return self._plain

    def write(self, data: bytes) -> int:
        self._file.write(self._packer.compress(data))
        self._plain += len(data)
        if self.inside is not None:
            self.end_if_full()
        return len(data)

    def added(self, name: str, sha256: str) -> None:
        """A file is whole."""
        self._members[name] = sha256
        self.inside = None
        self.end_if_full()

    def end_if_full(self) -> None:
        """Raises OSError."""
        if self._journal is not None and self._plain - self._begun >= SEGMENT:
            self._end()
            line = {"packed": self._file.tell(), "plain": self._plain, "members": self._members, "inside": self.inside}
            self._journal.write(json.dumps(line).encode() + b"\n")
            _flush(self._journal)
            self._members = {}

    def finish(self) -> None:
        if self._plain > self._begun:
            self._end()
        _flush(self._file)

    def _end(self) -> None:
        self._file.write(self._packer.flush())
        self._packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
        self._begun = self._plain
        _flush(self._file)


def sound(file: Path, journal: Path) -> tuple[Packed, int]:
    """What an interrupted writer has left: as far as its segments are whole, by their check sums; and how many bytes of
    the journal say so. All of it is read. Raises OSError.
    """
    so_far, told = Packed(), 0
    with open(file, "rb") as packed, open(journal, "rb") as lines:
        for line in lines:
            found = _read(line)
            if found is None or not _is_whole(packed, found.packed - so_far.packed, found.plain - so_far.plain):
                break
            found.members = so_far.members | found.members
            so_far, told = found, told + len(line)
    return so_far, told


def _read(line: bytes) -> Packed | None:
    """None of a line that was not written to its end, or that somebody has edited."""
    try:
        content: dict[str, Any] = json.loads(line)
        inside = content["inside"]
        return Packed(int(content["packed"]), int(content["plain"]), dict(content["members"]),
                      None if inside is None else (str(inside[0]), int(inside[1]), int(inside[2])))
    except (ValueError, TypeError, LookupError):
        return None


def _is_whole(packed: IO[bytes], size: int, plain: int) -> bool:
    unpacker, found = zlib.decompressobj(wbits=_GZIP), 0
    try:
        for piece in _pieces(packed, size):
            found += len(unpacker.decompress(piece))
    except zlib.error:
        return False
    return unpacker.eof and not unpacker.unused_data and found == plain


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        size -= len(piece)
        yield piece


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
