"""Tuner processes, each forked from a process that has imported what they import.

A hundred tests start one. The program itself runs as ``nniweb.tuning.process.tuner_process`` does, with its pipes.

Tests of the start itself, programs with another Python, and servers start a process of their own.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.forking import programs
from tests.forking.forker import Forker, forker_of_this_process, serve

#: What such a process loads when it starts, or with the first algorithm of a person's own, beside the modules that
#: stand in for NNI's, which get their names there.
_IMPORTED = ("nniweb.tuning.process.tuner_process", "nniweb.tuning.custom_algorithms.own_advisor",
             "nniweb.tuning.custom_algorithms.own_assessor", "nniweb.tuning.custom_algorithms.own_tuner")


def start_or_fork(start: Callable[..., object], command: Sequence[str], folder: Path | None,
                  environment: Mapping[str, str]) -> object:
    """Instead of ``start``: fork, where the interpreter is ours and its environment makes no difference to it."""
    ours = {name: value for name, value in os.environ.items() if name == programs.SEARCH_PATH}
    if command[0] != sys.executable or "-c" in command or not programs.can_start(
            {**_without_search_path(environment), **ours}):  # which it adds itself
        return start(command, folder, environment)
    tuner = forker_of_this_process("tuners", _forker).start(
        command[1:], cwd=folder or Path.cwd(), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
    assert tuner is not None
    return tuner


def _forker() -> Forker:
    return Forker(["-m", "tests.forking.tuners"], env={**_without_search_path(os.environ), "OMP_NUM_THREADS": "1"})


def _without_search_path(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != programs.SEARCH_PATH}


# --- the process that forks ----------------------------------------------------------------


def _load() -> None:
    from nniweb.tuning.custom_algorithms import loading  # not in the processes that run tests

    for name in _IMPORTED:
        importlib.import_module(name)
    for name in filter(None, loading._NAMES.values()):
        importlib.import_module(f"{loading.base_classes.__name__}.{name}")


def _run(asked: dict[str, Any]) -> NoReturn:
    sys.modules["numpy"].random.seed()
    arguments, cwd = asked["arguments"], asked["cwd"]
    searched = [folder for folder in programs.search_path_of(asked["env"]) if folder not in sys.path]
    if arguments[0] == "-m":  # it is loaded
        sys.path[1:1] = searched
        sys.argv[:], sys.path[0] = arguments[1:], cwd
        sys.modules[arguments[1]].main()
        sys.exit()
    programs.run_python(arguments, cwd, searched)


if __name__ == "__main__":
    serve(int(sys.argv[1]), _load, _run)
