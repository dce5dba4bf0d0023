"""Reads streams of output, wherever they are: rows of pieces, and rows of segments in the storage of files.

All raise OutputDamaged and StorageFailed where segments are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Length

from nniweb.experiments.models import TrialOutput
from nniweb.experiments.output.segments import Piece, read_segment
from trialkeeper import contract

_COLUMNS = ("offset", "data", "skipped", "storage_path", "stored_sha256")
#: Bytes of a row's output, of a segment with what it says of its pieces. For questions.
BYTES_OF_ROW = Coalesce("stored_size", Length("data"))
_Row = tuple[int, bytes, int, str | None, str | None]


def stream_end(rows: QuerySet[TrialOutput]) -> int:
    """End of what has arrived of a stream, in bytes. No segment is read."""
    end = Coalesce("stored_end", F("offset") + Length("data"))
    return rows.annotate(end=end).order_by("-offset").values_list("end", flat=True).first() or 0


def pieces_near(rows: QuerySet[TrialOutput], offset: int, limit: int) -> list[Piece]:
    """Of one stream those that may have something of ``limit`` bytes from ``offset``, in order; where there is nothing
    at ``offset``, the next one there is.
    """
    near = rows.filter(Q(offset__gt=offset - contract.MAX_OUTPUT_PIECE_BYTES) | Q(stored_end__gt=offset),
                       offset__lt=offset + limit)
    pieces = [piece for piece in _pieces(near.order_by("offset").values_list(*_COLUMNS))
              if offset - contract.MAX_OUTPUT_PIECE_BYTES < piece.offset < offset + limit]
    if any(_end(piece) > offset for piece in pieces):
        return pieces
    # all of it was left out, or was metrics: on to the next piece there is
    later = rows.filter(Q(offset__gte=offset) | Q(stored_end__gt=offset)).order_by("offset").values_list(*_COLUMNS)
    return [piece for piece in _pieces(later[:1]) if piece.offset >= offset][:1]


def all_pieces(rows: QuerySet[TrialOutput]) -> Iterator[Piece]:
    """In the order of the rows; a segment at a time is in memory."""
    found = rows.values_list(*_COLUMNS).iterator(16)
    try:
        yield from _pieces(found)
    finally:
        found.close()  # type: ignore[attr-defined]  # of a generator, which it is


def _pieces(rows: Iterable[_Row]) -> Iterator[Piece]:
    for offset, data, skipped, path, sha256 in rows:
        if path is None:
            yield Piece(offset, bytes(data), skipped)
        else:
            yield from read_segment(path, sha256 or "")


def _end(piece: Piece) -> int:
    return piece.offset + len(piece.data)
