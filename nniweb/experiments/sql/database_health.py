"""Whether the database takes what is written, and how much room the data folder has: what pages and readiness say.

Each process knows what it was refused itself, which cannot be written down where nothing can be written. Thread-safe.
"""

import shutil
import time
from dataclasses import dataclass

from django.conf import settings

from nniweb.database.outage_logs import first_line
from trainingservice.reasons import Reason

#: A refusal that nobody met again for so long, in seconds, says nothing any more: a worker that lives writes each 5 s.
REMEMBERED_SECONDS = 60.0


@dataclass(frozen=True)
class _Refusal:
    said: str
    at: float


_refusal: _Refusal | None = None


def note_refused(error: Exception) -> None:
    """The database has refused a write of this process (it is full, locked or away)."""
    global _refusal
    _refusal = _Refusal(first_line(error), time.monotonic())


def note_written() -> None:
    """The database has taken a write of this process."""
    global _refusal
    _refusal = None


def write_trouble() -> str:
    """That the database refuses writes, and what follows from it; "" while it takes them."""
    refusal = _refusal
    if refusal is None or time.monotonic() - refusal.at > REMEMBERED_SECONDS:
        return ""
    free = _free_bytes()
    room = "" if free is None or free >= settings.LOW_SPACE_BYTES else \
        f" {_megabytes(free)} are free in {settings.DATA_FOLDER}. Free disk space there."
    return Reason("database_refuses", refusal=refusal.said, room=room)


def little_room() -> str:
    """That the data folder's disk is nearly full, "" while it is not."""
    free = _free_bytes()
    if free is None or free >= settings.LOW_SPACE_BYTES:
        return ""
    return f"Only {_megabytes(free)} are free in the data folder {settings.DATA_FOLDER}. Free disk space. When the " \
           "disk is full, the server refuses reports, which then wait on the trial machines, and starts no new trials."


def trouble() -> str:
    """The sentence for the top of every page, "" where there is none."""
    return write_trouble() or little_room()


def kind_of_trouble() -> str:
    """Changes when ``trouble`` says something else than a figure."""
    return "refused" if write_trouble() else "little room" if little_room() else ""


def _free_bytes() -> int | None:
    try:
        return shutil.disk_usage(settings.DATA_FOLDER).free
    except OSError:
        return None


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB"
