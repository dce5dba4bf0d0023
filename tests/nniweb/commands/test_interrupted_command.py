"""Ctrl-C ends a command, and a server that has not begun to look after it, without a traceback."""

import os
import signal
from pathlib import Path

from tests.end_to_end.running_server import ROOT
from tests.forking import programs


def test_ctrl_c_ends_a_command_by_its_signal_and_says_nothing(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('went on')"
    done = programs.run(["manage.py", "shell", "--no-imports", "-v0", "-c", code], cwd=ROOT, timeout=120,
                        env={**os.environ, "NNIWEB_DATA": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
