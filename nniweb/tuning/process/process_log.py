"""What algorithms print and log, on its way from the tuner process to the worker's log: of which experiment, how bad.

The way is the process's stderr. Beside plain lines, which algorithms print, it carries marked ones:

    RS {"experiment": "e1"}                    what follows belongs to this experiment
    RS {"level": 30, "text": "careful: ..."}   a record of ``logging``; its text may have many lines

RS is the character U+001E at the beginning of a line. What begins so and is none of these was printed, too.
"""

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_MARK = "\x1e"


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
            _write({"level": record.levelno, "text": text})
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


def _write(content: dict[str, Any]) -> None:
    os.write(2, f"{_MARK}{json.dumps(content)}\n".encode())


def read(lines: Iterable[bytes]) -> Iterator[Said]:
    """The messages in what the process wrote to stderr. Empty lines are left out."""
    experiment: str | None = None
    for raw in lines:
        # a mark ends a line that was begun: print(..., end="")
        plain, mark, marked = raw.decode(errors="replace").rstrip().partition(_MARK)
        if plain:
            yield Said(experiment, logging.INFO, plain)
        if not mark:
            continue
        match _content(marked):
            case {"experiment": str(named)}:
                experiment = named
            case {"level": int(level), "text": str(text)}:
                yield Said(experiment, level, text)
            case _:
                yield Said(experiment, logging.INFO, marked)


def _content(marked: str) -> object:
    try:
        return json.loads(marked)
    except ValueError:
        return None
