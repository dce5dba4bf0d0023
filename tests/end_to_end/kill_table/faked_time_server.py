"""A server under libfaketime: its wall clock follows a file, its children's does not.

    LD_PRELOAD=libfaketimeMT.so.1 ... python -m tests.end_to_end.kill_table.faked_time_server serve
"""

import os
import runpy
import sys
import threading
import time


def sleep(seconds: float) -> None:
    """In place of ``time.sleep``, whose system call libfaketime 0.9.10 refuses while it leaves that clock alone."""
    threading.Event().wait(seconds)


if __name__ == "__main__":
    del os.environ["LD_PRELOAD"]
    time.sleep = sleep
    sys.argv[0] = "manage.py"
    runpy.run_path("manage.py", run_name="__main__")
