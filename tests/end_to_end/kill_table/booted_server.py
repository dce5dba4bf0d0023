"""A server on a machine that was started at another time: ``BOOT_ID`` names the file that says at which.

    BOOT_ID=/tmp/... python -m tests.end_to_end.kill_table.booted_server serve
"""

import os
import runpy
import sys
from pathlib import Path

from tests.end_to_end.kill_table.power_cut import pretend_boot

if __name__ == "__main__":
    pretend_boot(Path(os.environ["BOOT_ID"]))
    sys.argv[0] = "manage.py"
    runpy.run_path("manage.py", run_name="__main__")
