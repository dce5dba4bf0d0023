"""Processor time of an answer: of this process, and of the processes of a PostgreSQL server."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class ProcessorTime:
    """Milliseconds."""

    web: float
    database: float

    def __sub__(self, other: ProcessorTime) -> ProcessorTime:
        return ProcessorTime(self.web - other.web, self.database - other.database)

    def __str__(self) -> str:
        return f"{self.web:.0f} + {self.database:.0f} ms of processor"


def taken(postgresql: int | None) -> ProcessorTime:
    """So far. ``postgresql``: pid of the server's first process; None where the database is part of this process.

    What PostgreSQL does beside, such as autovacuum, counts, too.
    """
    return ProcessorTime(time.process_time() * 1000, 0.0 if postgresql is None else _of_server(postgresql))


def _of_server(pid: int) -> float:
    first = psutil.Process(pid)
    times = first.cpu_times()
    milliseconds = (times.children_user + times.children_system) * 1000  # of those that have ended
    for each in first.children():
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            milliseconds += _of_process(each)
    return milliseconds


def _of_process(process: psutil.Process) -> float:
    """To the microsecond where the kernel tells it: ``cpu_times`` is in hundredths of a second."""
    told = Path(f"/proc/{process.pid}/schedstat")
    if told.exists():
        return int(told.read_text().split()[0]) / 1e6
    times = process.cpu_times()
    return float(times.user + times.system) * 1000
