"""Metrics in files with one row for each step, such as Lightning's and Keras's CSV loggers write: CSV, or JSON lines.

A file may be written anew with the same rows (Lightning does so when a metric is new), or with others (a second
training begins). So a row is known by its content and by that of all rows before it, and not by its place in the file.
"""

import csv
import hashlib
import os
import re
from array import array
from typing import Any, BinaryIO, Callable, List, Optional, Tuple

from trialkeeper import contract
from trialkeeper.line_metrics import number_in, read_json
from trialkeeper.step_groups import Measured, metrics_in

_BLOCK = 256 * 1024
#: Bytes at the beginning of a file, and before what was read last, by which it is recognised.
_HEAD, _TAIL = 1024, 4096
#: Lines of one row, which has line ends in quotes. Where more would belong to it, a quote was never closed.
_MOST_LINES = 100
#: Names of metrics in a first line, in a file whose name does not say that it has one: without spaces.
_NAMES = re.compile(r"[\w./%()#:-]{1,100}(\t[\w./%()#:-]{1,100})+\s*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TableFile:
    """One such file."""

    #: Nothing keeps it from being read.
    problem: Optional[contract.MetricProblem] = None

    def __init__(self, opened: Callable[[], BinaryIO], name: str, source: str, reached: Optional[List[Any]]) -> None:
        """``opened``: opens the file called ``name``, and may raise OSError. ``reached``: as its last position in the
        journal has it, None where it has none.
        """
        self.source, self.has_more = source, False
        self._opened = opened
        #: What the name says separates cells; and what the first line says, None in files of JSON lines.
        self._usual = {".csv": ",", ".tsv": "\t"}.get(os.path.splitext(name)[1].lower())
        self._separator = self._usual
        #: How many rows were reported, and the digests of these; of those before a takeover only the last one.
        self._count: int = reached[0] if reached else 0
        self._digests: "array[int]" = array("Q", reached[1:] if reached else [])
        self._seen: Optional[Tuple[int, int, int]] = None
        #: Lines of a row that goes on in the next line.
        self._unclosed: List[bytes] = []
        self._begin()

    def read(self, final: bool = False) -> List[Measured]:
        """What is in rows that came since the last call."""
        self.has_more = False
        try:
            with self._opened() as stream:
                lines = self._lines(stream, final)
        except OSError:
            return []
        measured: List[Measured] = []
        for line in lines:
            for row in self._rows_of(line):
                measured += self._row_of(row)
        if final and not self.has_more:
            unclosed, self._unclosed = self._unclosed, []
            for row in unclosed:
                measured += self._row_of(row)
        if final and not self.has_more and self._held and not (self._knows_all and self._is_known_so_far):
            measured += self._release()
        return measured

    def _begin(self) -> None:
        """The file is read from its beginning. Rows are held back as long as they may be those that were reported."""
        self._inode, self._offset = 0, 0
        self._head = self._tail = b""
        self._columns: Optional[List[str]] = None
        self._has_begun = False
        self._unclosed = []
        self._row, self._digest = 0, 0
        self._pass_digests = array("Q")
        self._held: Optional[List[Measured]] = [] if self._count else None

    def _lines(self, stream: BinaryIO, final: bool) -> List[bytes]:
        status = os.fstat(stream.fileno())
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp == self._seen and not final:
            return []
        if not self._goes_on(stream, status):
            self._begin()
        self._inode = status.st_ino
        stream.seek(self._offset)
        data = stream.read(_BLOCK)
        self.has_more = self._offset + len(data) < status.st_size
        self._seen = None if self.has_more else stamp
        end = data.rfind(b"\n") + 1
        if not end and (len(data) == _BLOCK or final and not self.has_more):
            end = len(data)  # a line without an end, or one that is too long
        elif final and not self.has_more:
            end = len(data)
        consumed = lines = data[:end]
        if not self._offset and lines.startswith(_BYTE_ORDER_MARK):
            lines = lines[len(_BYTE_ORDER_MARK):]
        if len(self._head) < _HEAD:
            self._head = (self._head + consumed)[:_HEAD]
        self._tail = consumed[-_TAIL:] if len(consumed) >= _TAIL else (self._tail + consumed)[-_TAIL:]
        self._offset += end
        return [line for line in lines.replace(b"\r", b"\n").split(b"\n") if line]

    def _goes_on(self, stream: BinaryIO, status: os.stat_result) -> bool:
        """Whether what was read is still there."""
        if not self._offset:
            return True
        if status.st_ino != self._inode or status.st_size < self._offset:
            return False
        if stream.read(len(self._head)) != self._head:
            return False
        stream.seek(self._offset - len(self._tail))
        return stream.read(len(self._tail)) == self._tail

    def _rows_of(self, line: bytes) -> List[bytes]:
        """The rows that are whole with this line."""
        if not self._has_begun:
            self._has_begun, self._separator = True, _separator_in(line, self._usual)
        if self._separator is None or not self._unclosed and b'"' not in line:
            return [line]
        self._unclosed.append(line)
        row = b"\n".join(self._unclosed)
        is_open = _is_open(row, self._separator)
        if is_open and len(self._unclosed) < _MOST_LINES and len(row) < _BLOCK:
            return []
        unclosed, self._unclosed = self._unclosed, []
        return unclosed if is_open else [row]

    def _row_of(self, line: bytes) -> List[Measured]:
        if self._separator is None:
            content, measured = line, read_json(line, None)
        else:
            cells = _cells(line, self._separator)
            if self._columns is None:
                self._columns = [cell.strip() for cell in cells]
                return []
            fields = {name: cell for name, cell in zip(self._columns, cells) if cell and name}
            numbers = {name: number_in(cell) for name, cell in fields.items()}
            content, measured = repr(sorted(fields.items())).encode(), metrics_in(numbers, None)
        self._row += 1
        digest = hashlib.blake2b(b"%d %b" % (self._digest, content), digest_size=8).digest()
        self._digest = int.from_bytes(digest, "little")
        if measured is not None:
            measured = measured._replace(position=[self._row, self._digest])
        return self._take([measured] if measured is not None else [])

    def _take(self, row: List[Measured]) -> List[Measured]:
        if self._held is None:
            self._count = self._row
            self._digests.append(self._digest)
            return row
        self._held += row
        self._pass_digests.append(self._digest)
        if not self._is_known_so_far:
            return self._release()
        if self._row == self._count:
            self._held = None
            self._digests = self._pass_digests
        return []

    @property
    def _knows_all(self) -> bool:
        """Whether there is a digest of each row that was reported."""
        return len(self._digests) == self._count

    @property
    def _is_known_so_far(self) -> bool:
        """Whether the rows that are held may be those that were reported."""
        if self._row == self._count:
            return self._digest == self._digests[-1]
        return not self._knows_all or not self._row or self._digest == self._digests[self._row - 1]

    def _release(self) -> List[Measured]:
        """They are others: the file has begun anew."""
        held, self._held = self._held or [], None
        self._count, self._digests = self._row, self._pass_digests
        return held


def _separator_in(line: bytes, usual: Optional[str]) -> Optional[str]:
    """What separates the cells of a first line. ``usual``: by the file's name, None: JSON lines."""
    text = line.decode("utf-8", "replace")
    if usual is not None:
        return next((sign for sign in (usual, ";", "\t", ",") if sign in text), usual)
    return next((sign for sign in "\t,;" if _NAMES.fullmatch(text.replace(sign, "\t")) and sign in text), None)


def _cells(line: bytes, separator: str) -> List[str]:
    try:
        return next(csv.reader(_lines_of(line), delimiter=separator), [])
    except csv.Error:
        return []


def _is_open(row: bytes, separator: str) -> bool:
    """Whether it ends in quotes that are not closed."""
    try:
        next(csv.reader(_lines_of(row), delimiter=separator, strict=True), [])
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False


def _lines_of(row: bytes) -> List[str]:
    return row.decode("utf-8", "replace").split("\n")
