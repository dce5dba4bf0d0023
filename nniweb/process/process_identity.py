"""Tells one process from a later one with the same number."""

import os
import socket
import subprocess
from functools import cache
from pathlib import Path


def host_name() -> str:
    return socket.gethostname()


def start_time_of(pid: int) -> str:
    """When the process began, in the system's own words; "" where there is no such process."""
    try:
        # after the name in brackets, which may hold anything, the start time is the 20th field (man 5 proc)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    except (OSError, IndexError):
        return ""
    shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()


@cache
def seen_processes() -> str:
    """Which processes are seen from here: those of a boot of a machine, in a container only its own. "" for unknown.

    A host's name does not tell: containers on the host's network have it too, and machines may have the same.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def is_alive_here(host: str, pid: int, started: str) -> bool:
    """False only if the process certainly ended: it would be seen from here, and is not there any more.

    ``started``: what it said by ``own_start_time``; of an older version without where it is seen.
    """
    time, _, seen = started.partition("@")
    if host != host_name() or (seen and seen != seen_processes()):
        return True
    return bool(time) and start_time_of(pid) == time


def own_start_time() -> str:
    """When this process began, and from where it is seen; at most 40 characters."""
    return f"{start_time_of(os.getpid())}@{seen_processes()}"
