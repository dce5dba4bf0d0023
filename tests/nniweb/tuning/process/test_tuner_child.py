"""One process with a tuner in it, from its start to its end."""

import sys
import threading
from pathlib import Path

from nniweb.tuning.process.tuner_child import TunerChild
from trialkeeper import machine

#: Leaves a process in a session of its own, which holds the pipes, and ends.
FORKS = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(300)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


def test_what_a_tuner_has_started_ends_with_its_process(tmp_path: Path) -> None:
    ended = threading.Event()
    child = TunerChild([sys.executable, "-c", FORKS, str(tmp_path / "pid")], lambda *_: ended.set())
    assert ended.wait(30), "the end is noticed though another process holds the pipes"
    child.end()
    assert machine.process_start_time(int((tmp_path / "pid").read_text())) is None
