"""A server under libfaketime: its wall clock, and that of the agent and the keepers it starts, follows a file.

    LD_PRELOAD=libfaketimeMT.so.1 FAKETIME_...=... python -m tests.end_to_end.kill_table.faked_time_server serve

Trials and tuners have the machine's own.
"""

import os
import runpy
import sys
import threading
import time

from trainingservice.local import agent_process


def sleep(seconds: float) -> None:
    """In place of ``time.sleep``, whose system call libfaketime 0.9.10 refuses while it leaves that clock alone."""
    threading.Event().wait(seconds)


if __name__ == "__main__":
    faked = {name: value for name, value in os.environ.items()
             if name.startswith("FAKETIME_") or name in ("LD_PRELOAD", "DONT_FAKE_MONOTONIC")}
    allowed_environment = agent_process.allowed_environment
    agent_process.allowed_environment = lambda: {**allowed_environment(), **faked}
    del os.environ["LD_PRELOAD"]
    time.sleep = sleep
    sys.argv[0] = "manage.py"
    runpy.run_path("manage.py", run_name="__main__")
