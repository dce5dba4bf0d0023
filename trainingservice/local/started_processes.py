"""Ends what a program has started that somebody else wrote, also in sessions of its own, by a mark in the environment.

A program that clears the environment of what it starts is not found: it is a person's own, who may run trials anyway.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Sequence

_VARIABLE = "ASKED_BY_NNIWEB"
#: How long the search may take, in seconds.
_SECONDS = 5.0
#: By /proc, so on Linux. It looks again, because what is ended may have started more meanwhile.
_END = f"""
left=5
while [ $left -gt 0 ]; do
    found=$(grep -lzsxF -e "{_VARIABLE}=$1" /proc/[0-9]*/environ)
    if [ -z "$found" ]; then break; fi
    for each in $found; do each=${{each%/environ}}; kill -KILL "${{each#/proc/}}" 2>/dev/null; done
    left=$((left - 1))
done
"""


def marked(script: str, mark: str) -> str:
    """The script for ``sh``, whose programs have the mark (letters and digits)."""
    return f"export {_VARIABLE}={mark}\n{script}"


def end_marked(mark: str, start: Callable[[Sequence[str]], subprocess.Popen[bytes]]) -> None:
    """Kill the processes that have the mark. ``start``: a program as their user. Blocking, for seconds at most."""
    with contextlib.suppress(OSError):
        search = start(["/bin/sh", "-c", _END, "sh", mark])
        try:
            search.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            search.kill()
            search.wait()
