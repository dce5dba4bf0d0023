"""The workers of a run are forked from one process that has imported their libraries.

Each worker imports all tests, and with them Django, scipy and a hundred others; so many processes need not do the same.
What is imported beforehand knows no settings and reads no environment. pytest and its plugins are not among it: a
worker loads them by itself, and rewrites their assertions then.

Linux alone: elsewhere execnet starts the workers, as it does without this.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from execnet import gateway_io
from execnet.gateway_base import Popen2IO

from tests.forking.forker import ForkedProcess, Forker, serve
from tests.forking.programs import IMPORTED, without_settings

#: Besides what servers need; what is not installed here is left out.
LIBRARIES = (*IMPORTED, "scipy.stats", "scipy.optimize", "scipy.linalg", "sklearn.ensemble", "sklearn.gaussian_process",
             "compose_spec", "kubernetes.client", "minio", "channels_redis.pubsub", "optuna", "playwright.sync_api",
             "mcp.client.client", "mcp.client.streamable_http", "mcp.server.streamable_http_manager", "grimp")
#: What must not be shared: pytest, plugins whose tests' assertions it rewrites, and what waits for events.
_NOT_SHARED = ("_pytest", "hypothesis", "twisted.internet.reactor")
#: Has a plugin for pytest, and is loaded with others. Its docstring then says what pytest looks for there before it
#: warns that the assertions of a plugin are those of its files.
_HAS_A_PLUGIN, _LEAVE_IT = "anyio", "PYTEST_DONT_REWRITE"


class ForkedWorkers:
    """For the process that begins a run. Whoever asks execnet for a process of this Python gets a forked one."""

    def __init__(self, modules: Sequence[str] = LIBRARIES) -> None:
        self._others = gateway_io.create_io
        self._forker = Forker(["-m", "tests.forking.workers", *modules], new_session=False,  # Ctrl-C is theirs, too
                              env={**without_settings(os.environ), "OMP_NUM_THREADS": "1"})

    def take_the_place_of_execnets(self) -> None:
        """From now on until ``end``."""
        gateway_io.create_io = lambda spec, execmodel: self.worker(execmodel) if spec.popen and not spec.python \
            else self._others(spec, execmodel)

    def worker(self, execmodel: Any) -> WorkerIO:
        """Fork one, with the environment and folder that this process has now."""
        process = self._forker.start([], cwd=Path.cwd(), env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     start_new_session=False)
        assert process is not None
        return WorkerIO(process, execmodel)

    def end(self) -> None:
        """When all have ended, or shall."""
        gateway_io.create_io = self._others
        self._forker.close()


class WorkerIO(Popen2IO):  # type: ignore[misc]  # execnet has few types
    """What execnet has of a process it starts."""

    def __init__(self, process: ForkedProcess, execmodel: Any) -> None:
        super().__init__(process.stdin, process.stdout, execmodel=execmodel)
        self._process = process

    def wait(self) -> int:
        return self._process.wait()

    def kill(self) -> None:
        self._process.kill()


def can_be_used() -> bool:
    return sys.platform == "linux"


# --- the process that forks ----------------------------------------------------------------


def _load(modules: Sequence[str]) -> None:
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if _HAS_A_PLUGIN in sys.modules:
        sys.modules[_HAS_A_PLUGIN].__doc__ = _LEAVE_IT
    assert not set(_NOT_SHARED) & sys.modules.keys(), set(_NOT_SHARED) & sys.modules.keys()


def _run(on_ctrl_c: Any, asked: dict[str, Any]) -> NoReturn:
    """What execnet has ``python -c`` do. It ends as an interpreter does."""
    signal.signal(signal.SIGINT, on_ctrl_c)
    sys.argv[:], sys.path[0] = ["-c"], ""
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    exec(eval(sys.stdin.readline()), vars(sys.modules["__main__"]))
    sys.exit()


if __name__ == "__main__":
    *modules, descriptor = sys.argv[1:]
    serve(int(descriptor), partial(_load, modules), partial(_run, signal.signal(signal.SIGINT, signal.SIG_IGN)),
          waits_for_all=True)
