"""The official ``nni`` package, in virtual environments of its own, for tests that compare with it.

They are made once, below ~/.cache/nniweb-tests (or NNIWEB_TEST_CACHE), from the package index that pip uses; a test
that needs one skips with the reason where that fails.
"""

import fcntl
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: The trial's side of older releases needs only these; their other requirements do not exist for today's Python.
_FOR_TRIALS = ["json_tricks", "numpy", "pandas", "pyyaml", "ruamel.yaml", "filelock", "prettytable", "psutil",
               "websockets", "requests", "colorama", "schema", "packaging", "typeguard", "typing_extensions",
               "cloudpickle", "responses", "astor"]
#: Version -> what pip is asked for, one call a list.
INSTALLATIONS = {
    "3.0": [["nni==3.0"]],
    "2.10.1": [["--no-deps", "nni==2.10.1"], _FOR_TRIALS],
    "1.9": [["--no-deps", "nni==1.9"], _FOR_TRIALS],
}


#: Of releases for an older Python, installed with that one.
OLD_INSTALLATIONS = {
    "1.7.1": [["--upgrade", "pip<22"], ["--no-deps", "nni==1.7.1"],
              ["--only-binary", ":all:", "json_tricks", "numpy", "ruamel.yaml", "requests", "colorama", "schema"]],
}


#: The same with all that its nnictl imports, and that its classes of configs need.
NNICTL_INSTALLATIONS = {
    "2.10.1 nnictl": [["--no-deps", "nni==2.10.1"], [*_FOR_TRIALS, "filelock<3.12"]],
    "2.10.1 experiment": [["--no-deps", "nni==2.10.1"], [*_FOR_TRIALS, "filelock<3.12", "typeguard<3"]],
    "1.7.1 nnictl": [["--upgrade", "pip<22"], ["--no-deps", "nni==1.7.1"],
                     ["--only-binary", ":all:", "json_tricks", "numpy", "ruamel.yaml", "requests", "colorama", "schema",
                      "psutil", "prettytable", "astor", "pkginfo"], ["PythonWebHDFS", "netifaces"]],
}


@functools.cache
def official_python(version: str, interpreter: str = sys.executable) -> Path:
    """The interpreter of an environment with this version, made with ``interpreter``. Skips the test where there can be
    none.
    """
    cache = Path(os.environ.get("NNIWEB_TEST_CACHE") or Path.home() / ".cache" / "nniweb-tests")
    of_python = subprocess.run([interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True,
                               capture_output=True, text=True).stdout.strip()
    folder = cache / f"nni-{version.replace(' ', '-')}-python{of_python}"
    python, done = folder / "bin" / "python", folder / "installed"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not done.exists():
            problem = _install(version, folder, python, interpreter)
            if problem:
                pytest.skip(f"the official nni {version} cannot be installed: {problem}")
            done.touch()
    return python


def _install(version: str, folder: Path, python: Path, interpreter: str) -> str:
    """Make the environment; "" or the last line of what went wrong."""
    wanted_here = {**INSTALLATIONS, **OLD_INSTALLATIONS, **NNICTL_INSTALLATIONS}[version]
    steps = [[interpreter, "-m", "venv", "--clear", str(folder)],
             *([str(python), "-m", "pip", "install", "-q", *wanted] for wanted in wanted_here),
             [str(python), "-c", "import nni"]]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["no message"])[-1]
    return ""
