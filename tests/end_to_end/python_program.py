"""A short Python program of a test in a process of its own, which is forked with its libraries where that is alike."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.forking import programs as forked_programs


def run_python(program: str, *, cwd: Path, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """What ``python -c program`` says in this folder, with modules of this folder. No module that reads settings or the
    environment is loaded when it begins. Raises subprocess.TimeoutExpired.
    """
    if not forked_programs.can_start(env):
        return subprocess.run([sys.executable, "-c", program], cwd=cwd, env=dict(env), text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=timeout, check=False)
    with tempfile.TemporaryDirectory(prefix="nniweb-program-") as folder:
        file = Path(folder) / "program.py"
        file.write_text(program)
        search_path = os.pathsep.join(filter(None, (str(cwd), env.get(forked_programs.SEARCH_PATH))))
        return forked_programs.run([str(file)], cwd=cwd, timeout=timeout,
                                   env={**env, forked_programs.SEARCH_PATH: search_path})
