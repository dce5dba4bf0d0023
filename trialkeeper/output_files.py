"""stdout and stderr: whole in files beside the trial, in pieces to the server.

The first ``head`` bytes of a stream are sent as they come, at most one piece a second unless a full one has
gathered. What follows stays on the trial machine until the end; then the last ``tail`` bytes are sent, with the
number of bytes that were left out before them. Lines that carry a metric are not sent as output.
"""

import os
from collections import deque
from typing import Callable, Deque, List

from trialkeeper import contract
from trialkeeper.journal import Journal
from trialkeeper.metric_source import FROM_STDOUT, MarkedLines, PlainText

#: Seconds between two pieces of one stream that are not full.
PIECE_INTERVAL = 1.0
_BLOCK = 256 * 1024
_BLOCKS_PER_LOOK = 8


class OutputFile:
    """One stream of the trial: reads its file as it grows and says what is to be journaled."""

    def __init__(self, path: str, stream: str, limits: contract.LimitsDocument, journal: Journal,
                 clock: Callable[[], float]) -> None:
        """Goes on where the journal ends. ``clock``: monotonic seconds."""
        self._path = path
        self.stream = stream
        self._clock = clock
        self._tail_bytes = limits.get("output_tail_bytes", 256 * 1024)
        self._head_left = max(0, limits.get("output_head_bytes", 256 * 1024) - journal.reported_output.get(stream, 0))
        self._read_up_to = journal.positions.get(stream, 0)
        self._head_end = self._read_up_to
        self._known_up_to = journal.positions.get(FROM_STDOUT, 0)
        self._lines = MarkedLines(self._read_up_to, self._known_up_to)
        self._is_scanned = stream == "stdout"
        self._head: List[PlainText] = []
        self._head_size = 0
        self._tail: Deque[PlainText] = deque()
        self._tail_size = 0
        self._left_out = False
        self._next_piece_at = clock()
        #: Whether a part was left out, for want of time, that may have metrics.
        self.has_unread_metrics = False

    def look(self, final: bool = False, may_read: Callable[[], bool] = lambda: True) -> List[contract.Entry]:
        """What is new: metrics at once, output when a piece is due. ``final``: the trial has ended, tell the rest: all
        of it as long as ``may_read`` says so, and then the tail.
        """
        entries: List[contract.Entry] = []
        blocks = 0
        while blocks < _BLOCKS_PER_LOOK or final:
            if final and not may_read():
                entries += self._read_tail()
                break
            data = self._read()
            if not data:
                break
            blocks += 1
            self._sort(data)
            entries += self._take_metrics()
        if final:
            self._sort(b"", final=True)
            entries += self._take_metrics()
        if self._head and (final or self._head_size >= contract.MAX_OUTPUT_PIECE_BYTES or not self._head_left
                           or self._clock() >= self._next_piece_at):
            entries += self._pieces(self._head)
            self._head, self._head_size = [], 0
            self._next_piece_at = self._clock() + PIECE_INTERVAL
        if final and (self._tail or self._left_out):
            pieces = self._pieces(list(self._tail) or [PlainText(self._read_up_to, b"")])
            if self._left_out:
                pieces[0]["skipped"] = pieces[0]["offset"] - self._head_end
            entries += pieces
            self._tail.clear()
            self._left_out = False
        return entries

    def _read_tail(self) -> List[contract.Entry]:
        """Pass over what there is no time to read, and take the last bytes; the metrics in these."""
        try:
            end = os.stat(self._path).st_size
        except OSError:
            return []
        begin = end - self._tail_bytes
        if begin > self._read_up_to:
            self.has_unread_metrics = self._is_scanned
            self._left_out, self._head_left = True, 0
            self._tail.clear()
            self._tail_size = 0
            self._read_up_to = begin
            self._lines = MarkedLines(begin, self._known_up_to)
        entries: List[contract.Entry] = []
        while self._read_up_to < end:
            data = self._read()
            if not data:
                break
            self._sort(data)
            entries += self._take_metrics()
        return entries

    def _read(self) -> bytes:
        try:
            if os.stat(self._path).st_size <= self._read_up_to:
                return b""
            with open(self._path, "rb") as stream:
                stream.seek(self._read_up_to)
                return stream.read(_BLOCK)
        except OSError:
            return b""

    def _sort(self, data: bytes, final: bool = False) -> None:
        if self._is_scanned:
            self._lines.feed(data, final)
            plain, self._lines.plain = self._lines.plain, []
        else:
            plain = [PlainText(self._read_up_to, data)] if data else []
        self._read_up_to += len(data)
        for text in plain:
            if self._head_left:
                head = PlainText(text.offset, text.data[:self._head_left])
                self._head.append(head)
                self._head_size += len(head.data)
                self._head_left -= len(head.data)
                self._head_end = head.offset + len(head.data)
                text = PlainText(self._head_end, text.data[len(head.data):])
            if text.data:
                self._add_to_tail(text)

    def _add_to_tail(self, text: PlainText) -> None:
        self._tail.append(text)
        self._tail_size += len(text.data)
        while self._tail_size > self._tail_bytes:
            self._left_out = True
            surplus = self._tail_size - self._tail_bytes
            first = self._tail.popleft()
            self._tail_size -= len(first.data)
            if len(first.data) > surplus:
                self._tail.appendleft(PlainText(first.offset + surplus, first.data[surplus:]))
                self._tail_size += len(first.data) - surplus

    def _take_metrics(self) -> List[contract.Entry]:
        metrics, self._lines.metrics = self._lines.metrics, []
        return metrics

    def _pieces(self, texts: List[PlainText]) -> List[contract.Entry]:
        """Entries for the texts: neighbours are put together, none is longer than a piece may be."""
        entries: List[contract.Entry] = []
        offset, data = texts[0].offset, bytearray()
        for text in texts:
            if text.offset != offset + len(data):
                entries += self._cut(offset, bytes(data))
                offset, data = text.offset, bytearray()
            data += text.data
        return entries + self._cut(offset, bytes(data))

    def _cut(self, offset: int, data: bytes) -> List[contract.Entry]:
        step = contract.MAX_OUTPUT_PIECE_BYTES
        return [{"type": contract.OUTPUT, "stream": self.stream, "offset": offset + at,
                 "data": data[at:at + step].decode("latin-1"),
                 "position": [self.stream, min(offset + at + step, offset + len(data))]}
                for at in range(0, max(1, len(data)), step)]
