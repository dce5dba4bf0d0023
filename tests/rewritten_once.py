"""The assertions of test files are rewritten once for a run with several workers, by as many processes as processors.

pytest rewrites a file when it imports it, and keeps the result in ``__pycache__``. A fresh checkout has none there, and
the workers import all files, in the same order and at the same time: each would rewrite all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

#: Files that are worth processes of their own; fewer have changed since the last run, and workers rewrite these.
MANY = 100


def rewrite_once(config: pytest.Config) -> int:
    """Rewrite what the run is going to import and no earlier run has left, if that is much; returns how many files."""
    state = config.stash.get(rewrite.assertstate_key, None)
    files = [] if state is None else [path for path in files_of(config) if not kept(path).exists()]
    if len(files) < MANY:
        return 0
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    children = []
    for first in range(processes):
        child = os.fork()
        if not child:
            try:
                for path in files[first::processes]:
                    _rewrite(path, config, state)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return len(files)


def _rewrite(path: Path, config: pytest.Config, state: Any) -> None:
    with suppress(Exception):  # what is wrong with it is said by the worker that imports it
        source_hash, code = rewrite._rewrite_test(path, config)
        kept(path).parent.mkdir(exist_ok=True)
        rewrite._write_pyc(state, code, source_hash, kept(path))


def files_of(config: pytest.Config) -> Iterator[Path]:
    """Test files, and files of fixtures, of what was asked for at the command line."""
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument.partition("::")[0])
        if path.is_dir():
            yield from path.rglob("test_*.py")
            yield from path.rglob("conftest.py")


def kept(path: Path) -> Path:
    """Where pytest looks for the file's rewritten code."""
    return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
