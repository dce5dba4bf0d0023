"""What a process has freed it gives back, whichever thread had it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from nniweb.process import freed_memory
from tests.end_to_end.running_server import ROOT

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc: its malloc is what is asked")

#: Frees a great deal of what several threads had, and leaves a little of it in between, as a server does.
PROGRAM = """
import sys, threading
from nniweb.process import freed_memory

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096 / 1e6

def arenas():
    # each has a heap of its own, which begins at a multiple of 64 MB
    with open("/proc/self/maps") as stream:
        begins = [int(line.split("-")[0], 16) for line in stream if len(line.split()) == 5 and "rw-p" in line]
    return sum(begin % (64 * 2**20) == 0 for begin in begins)

if sys.argv[1] == "few":
    assert freed_memory.use_few_arenas()
barrier = threading.Barrier(6)
left = []

def work():
    barrier.wait()
    blocks = [bytes(1000) for _ in range(20_000)]
    barrier.wait()
    left.extend(blocks[::100])

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
before = resident()
assert freed_memory.give_back()
print(arenas(), before, resident())
"""


def run(how: str) -> tuple[int, float, float]:
    """Arenas, and megabytes before and after the memory was given back."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], cwd=ROOT, env=environment, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, before, after = done.stdout.split()
    return int(found), float(before), float(after)


@needs_glibc
def test_what_is_free_goes_back_to_the_system() -> None:
    _, before, after = run("few")
    assert before - after > 50, "of 120 MB all but a hundredth was freed"


@needs_glibc
def test_threads_share_few_arenas() -> None:
    many, _, _ = run("as it is")
    few, _, _ = run("few")
    assert few <= freed_memory.ARENAS < many


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_function", lambda name: None)
    assert not freed_memory.use_few_arenas()
    assert not freed_memory.give_back()
    freed_memory.give_back_regularly()
