"""A process that is told to end is gone in time, whatever it waits for."""

import subprocess
import sys

HANGS = """
import threading
from nniweb.process.forced_exit import leave_within
threading.Thread(target=threading.Event().wait, name="rounds-local").start()
leave_within(0.2)
threading.Event().wait()
"""


def test_it_ends_though_threads_hang_and_says_which() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], timeout=90, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "rounds-local" in done.stderr
