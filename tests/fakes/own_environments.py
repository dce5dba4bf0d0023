"""Virtual environments with packages that the tests' own environment does not have.

They are made once, below ~/.cache/nniweb-tests (or NNIWEB_TEST_CACHE), from the package index that pip uses.
"""

import fcntl
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest


def python_with(module: str, version: str, wanted: list[list[str]], called: str, interpreter: str = sys.executable
                ) -> Path:
    """The interpreter of an environment with a version of a module, made with ``interpreter``. Skips the test where
    there can be none. ``wanted``: what pip is asked for, one call a list. ``called``: the package, for people.
    """
    return _python_with(module, version, tuple(map(tuple, wanted)), called, interpreter)


@functools.cache
def _python_with(module: str, version: str, wanted: tuple[tuple[str, ...], ...], called: str, interpreter: str) -> Path:
    cache = Path(os.environ.get("NNIWEB_TEST_CACHE") or Path.home() / ".cache" / "nniweb-tests")
    of_python = subprocess.run([interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True,
                               capture_output=True, text=True).stdout.strip()
    folder = cache / f"{module}-{version.replace(' ', '-')}-python{of_python}"
    python, done = folder / "bin" / "python", folder / "installed"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not done.exists():
            problem = _install(module, wanted, folder, python, interpreter)
            if problem:
                pytest.skip(f"{called} {version} cannot be installed: {problem}")
            done.touch()
    return python


def _install(module: str, wanted: tuple[tuple[str, ...], ...], folder: Path, python: Path, interpreter: str) -> str:
    """Make the environment; "" or the last line of what went wrong."""
    steps = [[interpreter, "-m", "venv", "--clear", str(folder)],
             *([str(python), "-m", "pip", "install", "-q", *asked] for asked in wanted),
             [str(python), "-c", f"import {module}"]]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["no message"])[-1]
    return ""
