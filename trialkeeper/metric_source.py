"""What the trial reports: frames in NNI's metrics file, marked lines on stdout.

Both were measured on the official package (reference: NNI's trial SDK). A frame is ``ME``, six digits, JSON and
a newline; the digits count the bytes of JSON and newline. A marked line is ``NNISDK_MEb'``, JSON (not escaped, so
it may hold quotes) and ``'``; it may begin in the middle of a line, and several may stand in one.
"""

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from trialkeeper import contract
from trialkeeper.folder_reader import open_plain_file

#: Sources in the journal's positions.
FROM_METRICS_FILE, FROM_STDOUT = "metrics", "marks"

#: Type of the frame by which our ``nni`` module announces a checkpoint: no metric, and not journaled.
CHECKPOINT_MARK = "CHECKPOINT"
MARK = b"NNISDK_MEb'"
_FRAME = re.compile(rb"ME(\d{6})\{")
_HEADER_BYTES = 8
_BLOCK = 1024 * 1024
#: Bytes at the beginning of the metrics file by which it is recognised.
_HEAD = 256
#: Marks in a line without a metric up to which a metric is looked for behind each of them, too.
_MOST_MARKS = 20
_DECODER = json.JSONDecoder()
_KIND = re.compile(rb'"type":\s*"([A-Z_]{1,40})"')
_SEQUENCE = re.compile(rb'"sequence":\s*(\d{1,9})')
_PARAMETER_ID = re.compile(rb'"parameter_id":\s*(null|-?\d{1,18}|"[^"\\]{0,200}")')


def read_metric(text: bytes) -> Optional[contract.Entry]:
    """The entry (without number and time) of one metric object as the trial wrote it; None: it is none."""
    try:
        metric = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(metric, dict) or not isinstance(metric.get("type"), str):
        return None
    if metric["type"] == CHECKPOINT_MARK:
        return {"type": contract.METRIC, "kind": CHECKPOINT_MARK, "name": metric.get("name"),
                "step": metric.get("step")}
    entry = _entry(metric["type"], metric.get("parameter_id"), metric.get("sequence"))
    if entry["kind"] == contract.REQUEST_PARAMETER:
        entry["value"] = str(metric.get("parameter_index") or 0)
        return entry
    value = metric.get("value")
    entry["value"] = value if isinstance(value, str) else json.dumps(value)
    size = len(entry["value"].encode("utf-8", "surrogatepass"))
    return entry if size < contract.MAX_METRIC_BYTES else _omitted(entry, size)


def read_beginning(text: bytes, size: int) -> contract.Entry:
    """The marker that stands for a metric of which only the beginning was kept because it is too long."""
    kind, sequence, parameter = _KIND.search(text), _SEQUENCE.search(text), _PARAMETER_ID.search(text)
    return _omitted(_entry(kind.group(1).decode() if kind else contract.PERIODICAL,
                           json.loads(parameter.group(1)) if parameter else None,
                           int(sequence.group(1)) if sequence else 0), size)


def _entry(kind: str, parameter_id: Any, sequence: Any) -> contract.Entry:
    if isinstance(parameter_id, (dict, list)):
        parameter_id = json.dumps(parameter_id)
    right = isinstance(sequence, int) and not isinstance(sequence, bool)
    return {"type": contract.METRIC, "kind": kind, "parameter_id": parameter_id, "sequence": sequence if right else 0}


def _omitted(entry: contract.Entry, size: int) -> contract.Entry:
    entry["value"] = None
    entry["omitted"] = "the metric has %d bytes; it must have fewer than %d" % (size, contract.MAX_METRIC_BYTES)
    return entry


class MetricsFile:
    """Reads the frames of a metrics file as they come. Half a frame waits; what is no frame is stepped over."""

    def __init__(self, path: str, position: int = 0) -> None:
        self._path = path
        self._position = position  # of the first byte in _rest
        self._rest = b""
        self._head = b""
        self._seen: Optional[Tuple[int, int, int]] = None
        #: Whether the last ``read`` left something for the next.
        self.has_more = False

    def read(self) -> List[contract.Entry]:
        """The metrics that were written since the last call (a part of them if they are very many)."""
        self.has_more = False
        try:
            status = os.lstat(self._path)
            stamp, size = (status.st_ino, status.st_size, status.st_mtime_ns), status.st_size
            if stamp == self._seen:
                return []
            end = self._position + len(self._rest)
            # the trial may have put a pipe there, which is opened when somebody writes to it
            with open(open_plain_file(*os.path.split(self._path)), "rb") as stream:
                head = stream.read(_HEAD)
                if size < end or not head.startswith(self._head):
                    # the trial has removed the file, or an old SDK in a child process emptied it: this is a new one
                    self._position, self._rest, end = 0, b"", 0
                self._head = head
                stream.seek(end)
                data = stream.read(_BLOCK)
        except OSError:
            return []
        self.has_more = end + len(data) < size
        self._seen = None if self.has_more else stamp
        return self._frames(self._rest + data)

    def _frames(self, data: bytes) -> List[contract.Entry]:
        entries = []
        text = data.decode("latin-1")  # of the same length
        at = 0
        while True:
            found = _FRAME.search(data, at)
            if found is None:
                # the beginning of a header may stand at the end
                at = max(at, len(data) - _HEADER_BYTES)
                break
            at = found.start()
            end = at + _HEADER_BYTES + int(found.group(1))
            if end > len(data):
                following = _FRAME.search(data, at + _HEADER_BYTES)
                if following is None or data[following.start() - 1:following.start()] not in (b"\n", b"\0"):
                    break
                at = following.start()  # a frame that was never finished: others came after it
                continue
            # without reading to its end what only begins like a frame: there may be any number of such beginnings
            entry = read_metric(data[at + _HEADER_BYTES:end]) if _is_json(text, at + _HEADER_BYTES, end) else None
            if entry is None:
                at += 2
                continue
            at = end
            entry["position"] = [FROM_METRICS_FILE, self._position + at]
            entries.append(entry)
        self._position += at
        self._rest = data[at:]
        return entries


def _is_json(text: str, begin: int, end: int) -> bool:
    """Whether that part of the text is one document and a newline. Looks no further than to what is wrong."""
    if text[end - 1] != "\n":
        return False
    try:
        _, stop = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return False
    return 0 <= end - stop < 10 and not text[stop:end].strip()


class PlainText(NamedTuple):
    """A run of bytes of stdout that carries no metric."""

    offset: int
    data: bytes


class MarkedLines:
    """Takes the metrics out of what a trial prints. ``position``: offset of the first byte that will be fed."""

    def __init__(self, position: int = 0, known_up_to: int = 0) -> None:
        """``known_up_to``: metrics that end before this offset were reported already."""
        self._known_up_to = known_up_to
        self._position = position  # of the byte that comes next
        self._rest = b""
        self._at = 0  # so much of _rest is done
        self._before = b"\n"  # the byte that was done last
        self._too_long: Optional[bytes] = None
        self._too_long_size = 0
        self.plain: List[PlainText] = []
        self.metrics: List[contract.Entry] = []

    def feed(self, data: bytes, final: bool = False) -> None:
        """Sort more bytes into ``plain`` and ``metrics``, which the reader empties. ``final``: no more will come."""
        self._rest = self._rest[self._at:] + data
        self._at = 0
        while self._at < len(self._rest) and self._step(final):
            pass
        if final and self._too_long is not None:
            self._end_too_long()

    def _step(self, final: bool) -> bool:
        rest, at = self._rest, self._at
        if self._too_long is not None:
            newline = rest.find(b"\n", at)
            length = (newline + 1 if newline >= 0 else len(rest)) - at
            self._too_long_size += length
            self._consume(length)
            if newline >= 0:
                self._end_too_long()
            return True
        mark = rest.find(MARK, at)
        if mark < 0:
            keep = 0 if final else _length_of_partial_mark(rest[at:][-len(MARK):])
            self._give(len(rest) - keep - at)
            return False
        if mark > at:
            self._give(mark - at)
            return True
        newline = rest.find(b"\n", at)
        if newline < 0 and not final:
            if len(rest) - at > contract.MAX_METRIC_BYTES + 1000:
                self._too_long, self._too_long_size = rest[at:at + 1000], 0
                return True
            return False
        self._take_line(rest[at:newline if newline >= 0 else len(rest)])
        return True

    def _take_line(self, line: bytes) -> None:
        """``line`` begins with a mark and ends before the newline."""
        last = line.rfind(b"'")
        entries = [read_metric(line[len(MARK):last])]
        parts = line[len(MARK):last].split(MARK)
        if entries[0] is None:  # several writers in one line: each part ends at its own last quote
            entries = [read_metric(part[:part.rfind(b"'")] if at + 1 < len(parts) else part)
                       for at, part in enumerate(parts)]
        metrics = [entry for entry in entries if entry is not None]
        if not metrics:
            self._give(len(MARK) if len(parts) <= _MOST_MARKS else len(line))
            return
        whole_line = self._before == b"\n" and not line[last + 1:].strip()
        end = min(len(line) + 1, len(self._rest) - self._at) if whole_line else last + 1
        for entry in metrics:
            entry["position"] = [FROM_STDOUT, self._position + last + 1]
            if self._position + last + 1 > self._known_up_to:
                self.metrics.append(entry)
        self._consume(end)

    def _end_too_long(self) -> None:
        entry = read_beginning(self._too_long or b"", self._too_long_size)
        entry["position"] = [FROM_STDOUT, self._position]
        if self._position > self._known_up_to:
            self.metrics.append(entry)
        self._too_long = None

    def _give(self, length: int) -> None:
        if length:
            self.plain.append(PlainText(self._position, self._rest[self._at:self._at + length]))
            self._consume(length)

    def _consume(self, length: int) -> None:
        self._position += length
        self._at += length
        self._before = self._rest[self._at - 1:self._at]


def _length_of_partial_mark(data: bytes) -> int:
    for length in range(min(len(MARK) - 1, len(data)), 0, -1):
        if data.endswith(MARK[:length]):
            return length
    return 0


def metrics_of(journal_positions: Dict[str, int], path: str) -> MetricsFile:
    """The reader of a metrics file that goes on where the journal ends."""
    return MetricsFile(path, journal_positions.get(FROM_METRICS_FILE, 0))
