"""Tells one process from a later one with the same number."""

import os
import socket
import subprocess
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


def is_alive_here(host: str, pid: int, started: str) -> bool:
    """False only if the process certainly ended: it was on this host, and is not there any more."""
    if host != host_name():
        return True
    return bool(started) and start_time_of(pid) == started


def own_start_time() -> str:
    return start_time_of(os.getpid())
