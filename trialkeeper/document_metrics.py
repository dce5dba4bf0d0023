"""Metrics in files that end in ``.json``: one document, as scripts write their results, or JSON lines.

A document is read whole, and again when it has changed. Its rows are known by their content and that of the rows
before, as those of a table.
"""

import hashlib
import json
import os
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Protocol, Tuple

from trialkeeper import contract
from trialkeeper.step_groups import STEPS, Measured, metrics_in

#: Bytes of a document; a larger one is not read. Rows of one.
MOST_BYTES, MOST_ROWS = 8 * 1024 * 1024, 100_000


class _Lines(Protocol):
    has_more: bool

    def read(self, final: bool = False) -> List[Measured]: ...


class JsonFile:
    """One such file. What it is, its first line tells: an object alone, or the beginning of something longer."""

    #: Nothing keeps it from being read.
    problem: Optional[contract.MetricProblem] = None

    def __init__(self, opened: Callable[[], BinaryIO], source: str, reached: Optional[List[Any]],
                 lines: Callable[[], _Lines]) -> None:
        """``opened``: opens it, and may raise OSError. ``reached``: its last position in the journal, None where it has
        none. ``lines``: gives the reader of JSON lines, which goes on from the same position.
        """
        self.source = source
        self._opened, self._make_lines = opened, lines
        self._lines: Optional[_Lines] = None
        #: How many rows were reported, and the digest of the last one.
        self._count: int = reached[0] if reached else 0
        self._digest: int = reached[-1] if reached else 0
        self._seen: Optional[Tuple[int, int, int]] = None

    @property
    def has_more(self) -> bool:
        """Whether the last ``read`` left something for the next."""
        return self._lines is not None and self._lines.has_more

    def read(self, final: bool = False) -> List[Measured]:
        """What is new in it since the last call."""
        if self._lines is not None:
            return self._lines.read(final)
        try:
            with self._opened() as stream:
                status = os.fstat(stream.fileno())
                stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
                if stamp == self._seen and not final:
                    return []
                text = stream.read(MOST_BYTES + 1)
        except OSError:
            return []
        if _begins_with_an_object(text, final):
            self._lines = self._make_lines()
            return self._lines.read(final)
        self._seen = stamp
        try:
            rows = _rows(json.loads(text)) if len(text) <= MOST_BYTES else []
        except (ValueError, RecursionError):
            return []  # it is being written
        return self._new(rows)

    def _new(self, rows: List[Dict[str, Any]]) -> List[Measured]:
        """Those that were not reported. If the first ones are others than those that were, all are new."""
        digests = []
        digest = 0
        for row in rows:
            text = json.dumps(row, sort_keys=True).encode()
            digest = int.from_bytes(hashlib.blake2b(b"%d %b" % (digest, text), digest_size=8).digest(), "little")
            digests.append(digest)
        goes_on = 0 < self._count <= len(rows) and digests[self._count - 1] == self._digest
        found = []
        for place in range(self._count if goes_on else 0, len(rows)):
            measured = metrics_in(rows[place], [place + 1, digests[place]])
            if measured is not None:
                found.append(measured)
        if rows:
            self._count, self._digest = len(rows), digests[-1]
        return found


def _begins_with_an_object(text: bytes, final: bool) -> bool:
    line, end, _ = text.lstrip().partition(b"\n")
    if not end and not final:
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _rows(document: Any) -> List[Dict[str, Any]]:
    """Of a list its objects; of lists of one length under names, such as Keras' history, the values of each place."""
    if isinstance(document, list):
        return [row for row in document if isinstance(row, dict)][:MOST_ROWS]
    if not isinstance(document, dict):
        return []
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    lengths = {len(value) for value in lists.values()}
    if len(lists) == len(document) and len(lengths) == 1:
        count = min(lengths.pop(), MOST_ROWS)
        has_steps = any(name in STEPS for name in lists)
        return [{**({} if has_steps else {"step": place}), **{name: value[place] for name, value in lists.items()}}
                for place in range(count)]
    return [document]
