"""What algorithms print and log, on its way from the tuner process to the worker's log: of which experiment, how bad.

The way is the process's stderr. Beside plain lines, which algorithms print, it carries marked ones:

    RS {"experiment": "e1"}                    what follows belongs to this experiment
    RS {"level": 30, "text": "careful: ..."}   a record of ``logging``; its text may have many lines

RS is the character U+001E, which begins a line wherever it stands. What begins so and is none of these was printed.

An algorithm may write without end. Long lines are cut, and most of what goes on for long is left out, which is said.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

_MARK = "\x1e"
#: Characters of one message; the rest of a longer one is left out.
LONGEST = 16 * 1024
#: Bytes of one line; JSON may take six for a character.
_LONGEST_LINE = 8 * LONGEST
#: Of each experiment so many bytes are taken at once, and so many a second when it goes on; a message counts as so many
#: more.
BURST, PER_SECOND, _EACH = 1024 * 1024, 4 * 1024, 200
#: Bytes read at once, and in a second: an algorithm that writes without pause must not take the worker's processor.
_PIECE, _PIECES_PER_SECOND = 64 * 1024, 128


@dataclass(frozen=True)
class Said:
    """One message."""

    #: None where nothing was marked yet.
    experiment: str | None
    level: int
    text: str


class MarkedLog(logging.Handler):
    """Writes records of ``logging`` to stderr, marked. For the process's root logger."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = f"{record.name}: {self.format(record)}"
            if sys.stdout is not None:
                sys.stdout.flush()  # what was printed before comes before
            _write({"level": record.levelno, "text": shortened(text)})
        except Exception:
            self.handleError(record)


def write_logs_to_stderr() -> None:
    """From now on what anything in this process logs at INFO and above goes to stderr, marked, and prints at once."""
    root = logging.getLogger()
    root.addHandler(MarkedLog())
    root.setLevel(logging.INFO)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)


def mark_experiment(experiment_id: str) -> None:
    """What is printed and logged from now on belongs to this experiment."""
    _write({"experiment": experiment_id})


def shortened(text: str, longest: int = LONGEST) -> str:
    """Its beginning, and how much is missing."""
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text) - longest} more characters)"


def _write(content: dict[str, Any]) -> None:
    os.write(2, f"{_MARK}{json.dumps(content)}\n".encode())


def pieces_of(pipe: IO[bytes]) -> Iterator[bytes]:
    """What comes through a pipe, no faster than it can be looked at. Blocking."""
    while piece := os.read(pipe.fileno(), _PIECE):
        yield piece
        time.sleep(len(piece) / _PIECE / _PIECES_PER_SECOND)


def read(pieces: Iterable[bytes], monotonic: Callable[[], float] = time.monotonic) -> Iterator[Said]:
    """The messages in what the process wrote to stderr, which comes in pieces. Empty lines are left out."""
    return _Reader(monotonic).read(pieces)


class _Reader:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._experiment: str | None = None
        self._room: dict[str | None, _Room] = {None: _Room(monotonic())}
        #: Whether the rest of a line that was too long is still coming.
        self._skips = False

    def read(self, pieces: Iterable[bytes]) -> Iterator[Said]:
        begun = b""
        for piece in pieces:
            room = self._room[self._experiment]
            if room.is_closed(self._monotonic()) and _MARK.encode() not in piece:
                room.left_out += len(begun) + len(piece)  # without a look at each line: there may be millions
                begun, self._skips = b"", not piece.endswith(b"\n")
                continue
            *lines, begun = (begun + piece.replace(_MARK.encode(), b"\n" + _MARK.encode())).split(b"\n")
            for line in lines:
                yield from self._line(line)
                self._skips = False
            if len(begun) > _LONGEST_LINE:
                yield from self._line(begun)
                begun, self._skips = b"", True
        yield from self._line(begun)

    def _line(self, raw: bytes) -> Iterator[Said]:
        if self._skips:
            self._room[self._experiment].left_out += len(raw)
            return
        line = raw[:_LONGEST_LINE].decode(errors="replace").rstrip()
        if not line.startswith(_MARK):
            yield from self._message(logging.INFO, line, len(raw))
            return
        match _content(line[1:]):
            case {"experiment": str(named)}:
                self._experiment = named
                self._room.setdefault(named, _Room(self._monotonic()))
            case {"level": int(level), "text": str(text)}:
                yield from self._message(level, text, len(raw))
            case _:
                yield from self._message(logging.INFO, line[1:], len(raw))

    def _message(self, level: int, text: str, size: int) -> Iterator[Said]:
        if not text:
            return
        room = self._room[self._experiment]
        if room.is_closed(self._monotonic()):
            room.left_out += size
            return
        if room.left_out:
            yield Said(self._experiment, logging.WARNING,
                       f"{room.left_out} bytes of what the tuner wrote were left out")
            room.left_out = 0
        yield Said(self._experiment, level, shortened(text))
        if room.take(size + _EACH):
            yield Said(self._experiment, logging.WARNING,
                       f"the tuner has written more than {BURST // 1024} KB in a short time; what it writes now is "
                       "left out for some minutes")


class _Room:
    """How much more of one experiment is taken."""

    def __init__(self, now: float) -> None:
        self._left, self._at = float(BURST), now
        self.closed = False
        #: Bytes of which nothing was said yet.
        self.left_out = 0

    def is_closed(self, now: float) -> bool:
        """Once closed, until half of it has come back."""
        self._left = min(float(BURST), self._left + max(0.0, now - self._at) * PER_SECOND)
        self._at = now
        self.closed = self.closed and self._left < BURST / 2
        return self.closed

    def take(self, size: int) -> bool:
        """Whether it is closed by this."""
        self._left -= size
        self.closed = self._left <= 0
        return self.closed


def _content(marked: str) -> object:
    try:
        return json.loads(marked)
    except (ValueError, RecursionError):
        return None
