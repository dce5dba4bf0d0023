"""Segments of output in the storage of files: the pieces of one stream, one after another, in one file.

The file begins with one line of JSON, ``{"pieces": [[offset, bytes, skipped], ...]}``; what the pieces hold follows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from nniweb.storage.elsewhere import StorageFailed

#: Bytes of output in one segment, unless one piece has more.
SEGMENT_BYTES = 1024 * 1024
#: Segments that a process remembers: whoever reads on asks for the same one again.
_REMEMBERED = 4


class Piece(NamedTuple):
    """``offset``: in the stream. ``skipped``: bytes before it that stayed on the trial machine."""

    offset: int
    data: bytes
    skipped: int


class OutputDamaged(Exception):
    """A segment is not what was stored, or is missing. The text is a sentence."""


class StoredSegment(NamedTuple):
    path: str
    size: int
    sha256: str


def store_segment(folder: str, stream: str, pieces: Sequence[Piece]) -> StoredSegment:
    """Write the pieces into one file below ``folder``. The same pieces are the same file. Raises StorageFailed."""
    head = json.dumps({"pieces": [[piece.offset, len(piece.data), piece.skipped] for piece in pieces]})
    content = b"".join((head.encode(), b"\n", *(piece.data for piece in pieces)))
    sha256 = hashlib.sha256(content).hexdigest()
    path = f"output/{folder}/{stream}-{pieces[0].offset}-{sha256[:16]}"
    default_storage.save(path, ContentFile(content))
    return StoredSegment(path, len(content), sha256)


@lru_cache(maxsize=_REMEMBERED)
def read_segment(path: str, sha256: str) -> tuple[Piece, ...]:
    """Its pieces. Raises OutputDamaged, StorageFailed."""
    try:
        with default_storage.open(path) as file:
            content: bytes = file.read()
    except StorageFailed:
        raise
    except OSError as error:
        raise OutputDamaged(f"A part of the output cannot be read from the server's storage ({path}: "
                            f"{error.strerror or 'it is missing'}). {_ADVICE}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise OutputDamaged(f"A part of the output is damaged in the server's storage ({path}). {_ADVICE}")
    head, _, data = content.partition(b"\n")
    described = json.loads(head)["pieces"]
    begins = accumulate((size for _, size, _ in described), initial=0)
    return tuple(Piece(offset, data[begin:begin + size], skipped)
                 for (offset, size, skipped), begin in zip(described, begins, strict=False))


_ADVICE = "Restore it from a copy of the storage, or run the trial again."
