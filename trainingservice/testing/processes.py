"""Which processes of this machine belong to a test: so that it can show that none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trialkeeper.whole_number import whole_number

#: The place of a process's beginning, in ticks since the boot, behind its name in /proc/PID/stat.
_START_TIME = 19


@dataclass(frozen=True)
class RunningProcess:
    pid: int
    command: str


def since_boot() -> float:
    """Seconds since this machine was started, on the clock by which it notes when processes begin."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def processes_of(marks: Iterable[str], since: float = 0.0) -> list[RunningProcess]:
    """Living processes (zombies are not) with one of ``marks`` in command line, environment or working directory.

    This process and those above it are left out. Where there is no /proc, ``ps`` is asked. ``since``: processes that
    began before (``since_boot``) are not looked at, where that is known: there are hundreds, and few are younger.
    """
    wanted = [mark.encode() for mark in marks]
    above = _own_ancestors()
    candidates = _from_proc(since) if Path("/proc/self/environ").exists() else _from_ps()
    return [RunningProcess(pid, command.replace(b"\0", b" ").decode(errors="replace").strip())
            for pid, command, rest in candidates
            if pid not in above and any(mark in command or mark in rest for mark in wanted)]


def end_processes(processes: Iterable[RunningProcess]) -> None:
    """KILL each of them by its number; one that has gone meanwhile is no matter."""
    for process in processes:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs (a zombie does not)."""
    return any(found == pid for found, _, _ in (_from_proc(0.0) if Path("/proc/self/environ").exists() else _from_ps()))


def _from_proc(since: float) -> Iterable[tuple[int, bytes, bytes]]:
    first_tick = int(since * os.sysconf("SC_CLK_TCK"))
    for name in os.listdir("/proc"):
        if whole_number(name) is None:
            continue
        try:
            stat = _content(name, "stat")
            fields = stat[stat.rindex(b")") + 2:].split()
            if fields[0] in (b"Z", b"X") or int(fields[_START_TIME]) < first_tick:
                continue
            command = _content(name, "cmdline")
            rest = _content(name, "environ") + b"\0" + os.fsencode(os.readlink(f"/proc/{name}/cwd"))
        except OSError:  # it has ended, or it is somebody else's
            continue
        yield int(name), command, rest


def _content(pid: str, file: str) -> bytes:
    # without a stream: a machine has hundreds of processes, and they are looked at often
    descriptor = os.open(f"/proc/{pid}/{file}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _from_ps() -> Iterable[tuple[int, bytes, bytes]]:
    arguments = ["ps", "-axEww" if sys.platform == "darwin" else "-eww", "-o", "pid=,stat=,command="]
    for line in subprocess.run(arguments, capture_output=True, check=True).stdout.splitlines():
        pid, state, command = line.split(None, 2) if len(line.split(None, 2)) == 3 else (b"0", b"Z", b"")
        if not state.startswith(b"Z"):
            yield int(pid), command, b""


def _own_ancestors() -> set[int]:
    found = {os.getpid(), os.getppid()}
    try:
        pid = os.getppid()
        while pid > 1:
            stat = Path(f"/proc/{pid}/stat").read_text()
            pid = int(stat[stat.rindex(")") + 2:].split()[1])
            found.add(pid)
    except OSError:
        pass
    return found
