"""The journal: a numbered, append-only record of all that must be reported. It survives anything.

The file is JSON lines. The first is ``{"journal_id", "version", "job_name", "machine_id", "boot_id"}``: whose
journal it is, and in which start of which machine it was begun. Each other is an entry (see contract.py) with,
for those that were read from a file of the trial, a last member ``"position": [source, offset]``: how far that
file was read. A keeper that takes over goes on from there, so nothing is reported twice; the member is never sent.

A line is written before it is sent, in one write; half a line at the end (power cut, full disk) was never
sent and is cut off when the journal is opened. The entries are read back from the file when they are sent:
in memory there is one number for each.
"""

import json
import os
import threading
from array import array
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from trialkeeper import contract, machine
from trialkeeper.file_mode import file_mode
from trialkeeper.folder_reader import open_plain

_POSITION = b', "position": ['
#: Entries of these kinds are on disk before they are sent; others only in the system's cache.
_DURABLE_TYPES = (contract.STARTED, contract.CHECKPOINT, contract.ENDED)
#: Bytes of a line; a longer one is none of ours, but the trial can write to its folder, too.
_LONGEST_LINE = 64 * 1024 * 1024
#: Intermediate results whose times are remembered.
REMEMBERED_TIMES = 1000


class JournalSummary(NamedTuple):
    """What a journal says in short; ``last_n`` 0: it has no entry yet."""

    journal_id: str
    last_n: int
    started: bool
    ended: bool
    #: "" in journals of older keepers.
    job_name: str = ""


def read_summary(path: str) -> Optional[JournalSummary]:
    """The summary, from the first and the last line. None where the file has no whole line; OSError as from open.

    Where the last line is damaged (a power cut leaves blocks of zeros), the last one before the damage counts.
    """
    with open_plain(path) as stream:
        line = stream.readline(_LONGEST_LINE)
        header = _document(line)
        if header is None or "journal_id" not in header:
            return None
        begin = stream.tell()
        end = stream.seek(0, os.SEEK_END)
        tail, block = b"", 8192
        while True:
            # the last whole line; a very long metric may make it reach far back
            start = max(begin, end - block)
            stream.seek(start)
            tail = stream.read(end - start)
            tail = tail[:tail.rfind(b"\n") + 1]
            cut = tail.rfind(b"\n", 0, -1)
            if cut >= 0 or start == begin or block > _LONGEST_LINE:
                break
            block *= 8
    last = tail[cut + 1:]
    entry = _document(last) if last else {}
    if entry is None:
        entry = _last_whole_entry(path)
    return JournalSummary(header["journal_id"], entry.get("n", 0), bool(entry), entry.get("type") == contract.ENDED,
                          str(header.get("job_name") or ""))


def _document(line: bytes) -> Optional[Dict[str, Any]]:
    """The document of a whole line; None where the line is cut off or damaged."""
    try:
        document = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _whole_lines(path: str) -> Iterator[Tuple[int, Dict[str, Any]]]:
    """Length and document of the lines up to the first that is cut off or damaged: what follows cannot be trusted."""
    with open_plain(path) as stream:
        for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
            document = _document(line)
            if document is None or not ("journal_id" in document or "type" in document):
                return
            yield len(line), document


def _last_whole_entry(path: str) -> Dict[str, Any]:
    last: Dict[str, Any] = {}
    for _, last in _whole_lines(path):  # noqa: B007  # the last one is wanted
        pass
    return last if "type" in last else {}


def read_entries(path: str, after: int = 0) -> Tuple[str, List[contract.Entry]]:
    """For those who collect a journal as a file: its id and the whole entries with numbers above ``after``."""
    lines = [document for _, document in _whole_lines(path)]
    if not lines or "journal_id" not in lines[0]:
        return "", []
    for entry in lines[1:]:
        entry.pop("position", None)
    return str(lines[0]["journal_id"]), [entry for entry in lines[1:] if entry["n"] > after]


class EarlierRuns(NamedTuple):
    """What the runs before this one have used up: the numbers of this one follow."""

    #: Sequence number that the next intermediate result gets.
    next_sequence: int
    #: Stream -> offset of its next byte.
    ends_of_output: Dict[str, int]
    #: How long they ran, from their start to their last sign.
    seconds: float


class Journal:
    """The journal of one attempt, open for writing. Any thread may call; one process at a time (KEEPER_FILE's lock)."""

    def __init__(self, path: str, job_name: str = "") -> None:
        """Open or make the file. Raises OSError. ``job_name``: what a new one says whose it is."""
        self._lock = threading.Lock()
        self._path, self._job_name = path, job_name
        #: Whether the machine was switched off, or started anew, since the journal was begun on it.
        self.machine_was_off = False
        self._offsets = array("Q")  # of entry n at index n - 1
        #: Source -> how far it was read when its last entry was written: an offset, or what the source makes of it.
        self.positions: Dict[str, Any] = {}
        #: How many bytes of each stream were reported: stream -> sum of the pieces' lengths.
        self.reported_output: Dict[str, int] = {}
        self.started = self.ended = False
        #: Whether it has a final result.
        self.has_final = False
        #: The ``ended`` entry, None while there is none.
        self.end: Optional[contract.Entry] = None
        #: The ``checkpoint`` entries.
        self.checkpoints: List[contract.Entry] = []
        self._next_sequence = 0
        #: Of the last intermediate results that were there when the journal was opened: when each was read (seconds
        #: since 1970), and the number of the next one then.
        self.earlier_results: Deque[Tuple[float, int]] = deque(maxlen=REMEMBERED_TIMES)
        self._ends_of_output: Dict[str, int] = {}
        #: Seconds of all runs but the last one, and times at which that began and gave its last sign.
        self._seconds, self._began_at, self._last_at = 0.0, 0.0, 0.0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, file_mode())
        self._size = 0
        self.journal_id = self._read() or self._begin()
        #: Number of the last entry that was there when the journal was opened.
        self.opened_at = self.last_n

    @property
    def last_n(self) -> int:
        return len(self._offsets)

    @property
    def next_sequence(self) -> int:
        """Number of the intermediate result that comes next."""
        return self._next_sequence

    def append(self, entries: List[contract.Entry]) -> None:
        """Number the entries and write them. On OSError (the disk is full) none of them counts as written."""
        with self._lock:
            self._append(entries)

    def _append(self, entries: List[contract.Entry]) -> None:
        text, offsets = bytearray(), array("Q")
        durable = False
        for n, entry in enumerate(entries, self.last_n + 1):
            offsets.append(self._size + len(text))
            text += _line(n, entry)
            durable = durable or entry["type"] in _DURABLE_TYPES or entry.get("kind") == contract.FINAL
        self._write(bytes(text))
        if durable:
            os.fsync(self._descriptor)
        self._offsets.extend(offsets)
        for entry in entries:
            self._take_note(entry)

    def lines(self, first: int, last: int, most_bytes: int) -> List[bytes]:
        """Entries ``first`` to ``last`` as they are sent: at least one if there is one, then up to so many bytes."""
        with self._lock:
            last = min(last, self.last_n)
            if first > last:
                return []
            begin = self._offsets[first - 1]
            end = self._end_of(first)
            for n in range(first + 1, last + 1):
                if self._end_of(n) - begin > most_bytes:
                    break
                end = self._end_of(n)
            return [without_position(line) for line in self._read_at(begin, end).splitlines()]

    def _end_of(self, n: int) -> int:
        return self._offsets[n] if n < self.last_n else self._size

    def shift(self, to: int) -> None:
        """Renumber what was added since opening: the server knows entries up to ``to`` that this file lost (power cut).

        The lost numbers become empty output, so that the file stays without gaps.
        """
        with self._lock:
            kept = self.opened_at
            lost = to - kept
            if lost <= 0:
                return
            begin = self._offsets[kept] if kept < self.last_n else self._size
            added = [json.loads(line) for line in self._read_at(begin, self._size).splitlines()]
            os.ftruncate(self._descriptor, begin)
            self._size = begin
            del self._offsets[kept:]
            filler: List[contract.Entry] = [
                {"at": 0.0, "type": contract.OUTPUT, "stream": "stderr", "offset": 0, "data": ""} for _ in range(lost)]
            self._append(filler + added)
            self.opened_at = to

    def begin_run(self) -> EarlierRuns:
        """The trial is run once more, with new files of its own: what was read of the old ones counts no more."""
        with self._lock:
            self.positions.clear()
            self.started, self.ended, self.end = False, False, None
            return EarlierRuns(self._next_sequence, dict(self._ends_of_output),
                               self._seconds + max(0.0, self._last_at - self._began_at))

    def is_of_a_run_that_was_stopped(self) -> bool:
        """Whether a run has begun of which no end is known, or none but that something outside stopped it."""
        return self.started and (self.end is None or self.end.get("reason") == contract.STOPPED)

    def close(self) -> None:
        """Close the file. Nothing is lost; the journal can be opened again."""
        os.close(self._descriptor)

    # --- the file --------------------------------------------------------------------------

    def _begin(self) -> str:
        journal_id = os.urandom(16).hex()
        header = {"journal_id": journal_id, "version": contract.PROTOCOL_VERSION, "job_name": self._job_name,
                  "machine_id": machine.machine_id(), "boot_id": machine.boot_id()}
        self._write(json.dumps(header).encode() + b"\n")
        return journal_id

    def _read(self) -> Optional[str]:
        journal_id = None
        for length, document in _whole_lines(self._path):
            if journal_id is None:
                if "journal_id" not in document:
                    break
                journal_id = str(document["journal_id"])
                self.machine_was_off = (document.get("machine_id") == machine.machine_id()
                                        and document.get("boot_id", "") not in ("", machine.boot_id()))
            else:
                self._offsets.append(self._size)
                self._take_note(document)
                if document["type"] == contract.METRIC and document["kind"] == contract.PERIODICAL:
                    self.earlier_results.append((document["at"], self._next_sequence))
            self._size += length
        os.ftruncate(self._descriptor, self._size)
        return journal_id

    def _take_note(self, entry: contract.Entry) -> None:
        if "position" in entry:
            source, offset = entry["position"]
            self.positions[source] = offset
        kind = entry["type"]
        if kind == contract.STARTED:
            self.started = True
            self._seconds += max(0.0, self._last_at - self._began_at)
            self._began_at = entry["at"]
        elif kind == contract.ENDED:
            self.ended, self.end = True, entry
        elif kind == contract.METRIC:
            if entry["kind"] == contract.PERIODICAL:
                self._next_sequence = max(self._next_sequence, entry["sequence"] + 1)
            elif entry["kind"] == contract.FINAL:
                self.has_final = True
        elif kind == contract.CHECKPOINT:
            self.checkpoints.append(entry)
        elif kind == contract.OUTPUT:
            stream, size = entry["stream"], len(entry["data"])
            self.reported_output[stream] = self.reported_output.get(stream, 0) + size
            self._ends_of_output[stream] = max(self._ends_of_output.get(stream, 0), entry["offset"] + size)
        self._last_at = entry["at"]

    def _write(self, text: bytes) -> None:
        try:
            written = os.write(self._descriptor, text)
            if written != len(text):
                raise OSError("the journal %s could be written in part only: is the disk full?" % self._path)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(text)

    def _read_at(self, begin: int, end: int) -> bytes:
        parts = []
        while begin < end:
            part = os.pread(self._descriptor, end - begin, begin)
            if not part:
                raise OSError("the journal %s was cut off by somebody else" % self._path)
            parts.append(part)
            begin += len(part)
        return b"".join(parts)


def _line(n: int, entry: contract.Entry) -> bytes:
    fields = {"n": n, "at": entry["at"], "type": entry["type"]}
    fields.update((name, value) for name, value in entry.items() if name not in ("n", "position"))
    if "position" in entry:
        fields["position"] = entry["position"]  # the last one, see without_position
    return json.dumps(fields).encode("ascii") + b"\n"


def without_position(line: bytes) -> bytes:
    """A line as it is sent: without how far the trial's file was read."""
    # inside a text the quotes before and after the word would be escaped, so this is the member itself
    before, found, _ = line.rpartition(_POSITION)
    return before + b"}" if found else line
