"""What can be known about this machine and its processes. Linux through /proc, elsewhere through ``ps``."""

import os
import socket
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

from trialkeeper.whole_number import whole_number

_MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


def host() -> str:
    """Name of this machine as it calls itself."""
    return socket.gethostname()


def python_version() -> str:
    """Of this Python, such as 3.11.7."""
    return "%d.%d.%d" % sys.version_info[:3]


def machine_id() -> str:
    """The same text for all programs on this machine, another one on each other machine."""
    for path in _MACHINE_ID_FILES:
        text = _read_text(path)
        if text:
            return text
    return "host-" + host()


def boot_id() -> str:
    """Another text after each start of this machine; "" where it is not known."""
    return _read_text(_BOOT_ID_FILE)


def process_start_time(pid: int) -> Optional[str]:
    """When the process began, as a text that no later process of the same pid has; None: there is no such process.

    A zombie counts as gone. The text names the boot too, because Linux counts from there.
    """
    stat = process_stat(pid)
    if stat is not None:
        return None if stat[1][0] == "Z" else "%s/%s" % (boot_id(), stat[1][19])
    if os.path.isdir("/proc/self"):
        return None
    text = _ps("-o", "stat=,lstart=", "-p", str(pid))
    return None if not text or text.startswith("Z") else " ".join(text.split()[1:])


def process_lives(pid: Any, start_time: Any) -> bool:
    """Whether that very process still runs: the pid alone may long belong to another one.

    Both as a file tells them, which a trial may have written: what is no number, or no text, names no process.
    """
    return isinstance(pid, int) and isinstance(start_time, str) and process_start_time(pid) == start_time


def process_stat(pid: int) -> Optional[Tuple[bytes, List[str]]]:
    """Name of a process and what follows it in /proc/<pid>/stat (state, parent, group, session, ...); None: no such."""
    try:  # without a stream: a machine has thousands of processes
        descriptor = os.open("/proc/%d/stat" % pid, os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    before, _, after = line.rpartition(b")")  # the name may hold anything, also blanks and brackets
    fields = after.decode("ascii", "replace").split()
    return (before.partition(b"(")[2], fields) if len(fields) > 21 else None


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for this signal; False where that cannot be told."""
    try:
        with open("/proc/%d/status" % pid, "rb") as stream:
            mask = next((line.split()[1] for line in stream if line.startswith(b"SigCgt:")), b"0")
    except OSError:
        return False
    return bool(int(mask, 16) >> (number - 1) & 1)


def all_pids() -> List[int]:
    """The processes of this machine (or container) that can be seen."""
    try:
        return [pid for pid in map(whole_number, os.listdir("/proc")) if pid is not None]
    except OSError:
        return [pid for pid, _, _, _ in process_table()]


def process_table() -> List[Tuple[int, int, int, int]]:
    """(pid, parent, process group, session) of each process that is no zombie. Session 0 where it is not known."""
    table = []
    if os.path.isdir("/proc/self"):
        for pid in all_pids():
            stat = process_stat(pid)
            if stat is not None and stat[1][0] not in "ZX":
                table.append((pid, int(stat[1][1]), int(stat[1][2]), int(stat[1][3])))
        return table
    for line in _ps("-A", "-o", "pid=,ppid=,pgid=,stat=").splitlines():
        fields = line.split()
        if len(fields) == 4 and not fields[3].startswith("Z"):
            table.append((int(fields[0]), int(fields[1]), int(fields[2]), 0))
    return table


def children_of(pid: int) -> List[int]:
    """The processes whose parent this one is, zombies too. Quick on Linux; elsewhere all processes are looked at."""
    found = []
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread), encoding="ascii") as stream:
                found += [int(text) for text in stream.read().split()]
    except OSError:  # it ended meanwhile, or this kernel has no such file
        return [child for child, parent, _, _ in process_table() if parent == pid]
    return found


def descendants_of(pid: int) -> List[int]:
    """The processes that it started, those started by them, and so on."""
    found: Set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children_of(waiting.pop()) if child not in found]
        found.update(new)
        waiting += new
    return sorted(found)


def memory_total() -> Optional[int]:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def description(paths: List[str]) -> Dict[str, Any]:
    """What a platform wants to know before it uses this machine; ``disk_free``: bytes by path, None where unknown."""
    return {
        "machine_id": machine_id(), "host": host(), "python": python_version(), "cpu_count": os.cpu_count(),
        "memory_total": memory_total(), "bash": os.path.exists("/bin/bash"),
        "disk_free": {path: _disk_free(path) for path in paths},
    }


def _disk_free(path: str) -> Optional[int]:
    while path and not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)  # a folder that is still to be made: its disk is its parent's
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _ps(*arguments: str) -> str:
    import subprocess
    try:
        return subprocess.run(["ps", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False).stdout.decode("utf-8", "replace")
    except OSError:
        return ""
