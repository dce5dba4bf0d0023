"""Metrics in the lines that a script prints: found by a pattern, or as JSON objects."""

import ast
import json
import os
import re
from typing import Any, Callable, List, Match, Optional

from trialkeeper import contract
from trialkeeper.bounded_pattern import BoundedPattern
from trialkeeper.step_groups import Measured, metrics_in

#: In place of a pattern: each line that is a JSON object.
JSON_LINES = "json"
#: Groups of a pattern with a meaning of their own; each other one is a metric by its name.
NAME, VALUE, STEP = "name", "value", "step"
#: Characters of a line that a pattern is matched with, and bytes of a longest line; what is behind them is not read.
MOST_CHARACTERS, MOST_BYTES = 4096, 64 * 1024
_BLOCK = 256 * 1024
#: What colours words on a terminal, and moves its cursor.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: A number with what programs print around it: ``[0.5]``, ``0.5,``, ``95%``, ``tensor(0.5)``, ``np.float64(0.5)``.
_NUMBER_IN_WORDS = re.compile(
    r"[\[({'\"]*(?:[A-Za-z_][\w.]*[(\[]+)?"
    r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf|infinity))"
    r"[\])},;:!'\"%.]*", re.IGNORECASE)
#: Bytes of a dictionary as Python prints it. Reading one takes much longer than JSON.
_MOST_LITERAL = 8192


class Lines:
    """The complete lines of a file that grows, with the offset behind each. ``\\r`` ends a line, too."""

    def __init__(self, path: str, position: int = 0, longest: int = MOST_BYTES) -> None:
        """``longest``: bytes of a line, a longer one may be left out."""
        self._path, self._longest = path, longest
        self._position = position  # of the first byte in _rest
        self._rest = b""
        self._is_too_long = False
        #: Whether the last ``read`` left something for the next.
        self.has_more = False
        self.offsets: List[int] = []

    def read(self, final: bool = False) -> List[bytes]:
        """Lines that came since the last call, or some of them; ``offsets`` has where each ends. ``final``: a last
        line without an end counts.
        """
        data = self._read()
        buffer = self._rest + data.replace(b"\r", b"\n")
        end = buffer.rfind(b"\n") + 1
        if final and not self.has_more and end < len(buffer):
            buffer += b"\n"
            end = len(buffer)
        lines = buffer[:end].split(b"\n")[:-1]
        offset, self.offsets = self._position, []
        for line in lines:
            offset += len(line) + 1
            self.offsets.append(offset)
        self._position += end
        self._rest = buffer[end:]
        if self._is_too_long and lines:  # the end of what was dropped
            self._is_too_long, lines[0] = False, b""
        if len(self._rest) > self._longest:
            self._position += len(self._rest)
            self._rest, self._is_too_long = b"", True
        return lines

    def _read(self) -> bytes:
        self.has_more = False
        start = self._position + len(self._rest)
        try:
            size = os.stat(self._path).st_size
            if size < start:  # emptied: what is there now is new
                self._position, self._rest, self._is_too_long, start = 0, b"", False, 0
            if size == start:
                return b""
            with open(self._path, "rb") as stream:
                stream.seek(start)
                data = stream.read(_BLOCK)
        except OSError:
            return b""
        self.has_more = start + len(data) < size
        return data


class LineMetrics:
    """The metrics in one stream of output."""

    def __init__(self, path: str, source: str, pattern: str, position: int, log: Callable[[str], None]) -> None:
        """``source``: its name in positions. ``position``: how far it was read before. Raises re.error."""
        self.source = source
        self._lines, self._log = Lines(path, position), log
        self._pattern = None if pattern == JSON_LINES else BoundedPattern(pattern)

    @property
    def has_more(self) -> bool:
        """Whether the last ``read`` left something for the next."""
        return self._lines.has_more

    @property
    def problem(self) -> Optional[contract.MetricProblem]:
        """Why it is not read any more."""
        if self._pattern is None or not self._pattern.has_given_up:
            return None
        return {"problem": "slow_pattern", "detail": self.source}

    def read(self, final: bool = False) -> List[Measured]:
        """What came since the last call."""
        lines = self._lines.read(final)
        if not lines:
            return []
        offsets = self._lines.offsets
        if self._pattern is None:
            read = [read_json(line[line.index(b"{"):], offset) for line, offset in zip(lines, offsets) if b"{" in line]
        else:
            had_given_up = self._pattern.has_given_up
            texts = [_text_of(line) for line in lines]
            read = [_measured(match, offset) for match, offset in zip(self._pattern.search(texts), offsets)
                    if match is not None]
            if self._pattern.has_given_up and not had_given_up:
                self._log("the pattern for %s takes too long on some lines and is not matched any more: make it match "
                          "in fewer ways, for instance without (...*)*" % self.source)
        return [measured for measured in read if measured is not None]


def _text_of(line: bytes) -> str:
    """What a pattern is matched with."""
    text = line[:4 * MOST_CHARACTERS].decode("utf-8", "replace")
    return (_CONTROL.sub("", text) if "\x1b" in text else text)[:MOST_CHARACTERS]


def read_json(line: bytes, position: Any) -> Optional[Measured]:
    """The metrics of a line that may be a JSON object, or a dictionary as Python prints it."""
    line = line.strip()
    if len(line) > MOST_BYTES or not line.endswith(b"}"):
        return None
    try:
        document = json.loads(line)
    except RecursionError:
        return None
    except ValueError:
        document = _literal(line)
    return metrics_in(document, position) if isinstance(document, dict) else None


def _literal(line: bytes) -> Any:
    """A dictionary as Python prints it. Texts in it that are numbers count as numbers: libraries print them so."""
    if len(line) > _MOST_LITERAL or not line.startswith((b"{'", b'{"')):
        return None
    try:
        document = ast.literal_eval(line.decode())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        return None
    return {name: number_in(value) if isinstance(value, str) else value for name, value in document.items()}


def _measured(match: "Match[str]", position: int) -> Optional[Measured]:
    groups = match.groupdict()
    step = _number_in_words(groups.pop(STEP, None))
    name = groups.pop(NAME, None)
    if name is not None and VALUE in groups:
        groups[name] = groups.pop(VALUE)
    values = {}
    for key, text in groups.items():
        number = _number_in_words(text)
        if number is not None:
            values[key] = number
    return Measured(values, step, position) if values else None


def number_in(text: Optional[str]) -> Optional[float]:
    """The number that a text is, None where it is none."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _number_in_words(text: Optional[str]) -> Optional[float]:
    """The number in a text that has no other words."""
    number = number_in(text)
    if number is None and text is not None:
        match = _NUMBER_IN_WORDS.fullmatch(text)
        number = number_in(match.group(1)) if match is not None else None
    return number
