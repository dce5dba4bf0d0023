"""Programs of this project, each forked from a process that has imported their libraries already.

Most are forked from a process that has set Django up, too, and take that over for their own settings
(preloaded_django.py). Where that cannot be, what is imported beforehand knows no settings and reads no environment:
libraries, and our packages that know nothing of Django. The program itself runs from its first line, as ``__main__``.

Tests of the start itself, and programs with another Python, start a process of their own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.forking import preloaded_django
from tests.forking.forker import ForkedProcess, Forker, forker_of_this_process, serve

#: Set for a run of the tests, and not outside of one, as in benchmarks, where a start has to cost what it costs.
IN_USE = "NNIWEB_TEST_FORKED_PROGRAMS"
#: What the interpreter or the C library read when they start: who sets one gets a process of their own.
_READ_AT_START = ("PYTHON", "LD_", "MALLOC_", "LANG", "LC_", "TZ")
#: What is set alike for all programs that are forked, or nothing that was imported reads.
_MAY_DIFFER = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
#: Folders that it adds to those of the process it is forked from; it finds no other module of a name that is loaded.
SEARCH_PATH = "PYTHONPATH"
IMPORTED = (
    "django.core.management.commands.migrate", "django.contrib.admin", "django.db.backends.sqlite3.base", "django.test",
    "channels.routing", "autobahn.twisted.websocket", "twisted.internet.asyncioreactor", "twisted.web.http",
    "twisted.internet.endpoints", "cryptography.hazmat.primitives.ciphers.aead", "pydantic", "yaml", "lark", "paramiko",
    "requests", "sqlparse", "rest_framework.serializers", "markdown", "markdown_it", "pygments.formatters.html",
    "pygments.lexers", "prometheus_client", "orjson", "pythonjsonlogger.json", "whitenoise.middleware", "uritemplate",
    "channels.consumer", "channels.sessions", "daphne.http_protocol", "csp.constants", "psycopg", "dj_database_url",
    "trainingservice.local.service", "trainingservice.remote.service",
    "nniweb.experiments.config", "nniweb.tuning.process.tuner_child",
)


def can_start(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment may be forked: within a run of the tests, and only where it makes no
    difference to the interpreter.
    """
    ours = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)}
    theirs = {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
    differs = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    may = _MAY_DIFFER if SEARCH_PATH in ours else {*_MAY_DIFFER, SEARCH_PATH}
    return sys.platform == "linux" and IN_USE in os.environ and differs <= may


#: What this process has forked: each with its arguments and environment.
_started: list[tuple[ForkedProcess, list[str], dict[str, str]]] = []


def start(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdout: int, stderr: int) -> ForkedProcess:
    """Run the Python file ``arguments[0]`` with these arguments, or the module after ``-m``. ``stdout`` and ``stderr``
    are descriptors.
    """
    program = None
    for database in dict.fromkeys((preloaded_django.database_of(arguments, env), "")):  # the last one always can
        program = program or forker_of_this_process(f"programs {database}", partial(_forker, database)).start(
            arguments, cwd=cwd, env=env, stdout=stdout, stderr=stderr)
    assert program is not None
    _started[:] = [*_running(), (program, list(arguments), dict(env))]
    return program


def _forker(database: str) -> Forker:
    """``database``: for which Django is set up, "" where it is not."""
    return Forker(["-m", "tests.forking.programs", database],
                  env={**without_settings(os.environ), "PYTHONUNBUFFERED": "1"})


def _running() -> list[tuple[ForkedProcess, list[str], dict[str, str]]]:
    return [entry for entry in _started if entry[0].poll() is None]


def running(mark: str) -> dict[int, str]:
    """Command lines of the programs that this process has forked and that run now, by pid; those in whose arguments or
    environment the mark is. /proc does not tell.
    """
    return {program.pid: " ".join([sys.executable, *arguments]) for program, arguments, env in _running()
            if any(mark in text for text in (*arguments, *env.values()))}


def run(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
        ) -> subprocess.CompletedProcess[str]:
    """The same until it ends, and what it wrote. Raises subprocess.TimeoutExpired, when it has killed the program."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        program = start(arguments, cwd=cwd, env=env, stdout=out.fileno(), stderr=errors.fileno())
        try:
            status = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            raise
        texts = []
        for stream in (out, errors):
            stream.seek(0)
            texts.append(stream.read().decode())
        return subprocess.CompletedProcess(list(arguments), status, *texts)


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(("NNIWEB_", "NNI_", "DJANGO_"))}


# --- the process that forks ----------------------------------------------------------------


def _load(database: str) -> None:
    from trainingservice import platforms  # not in the processes that run tests
    from trainingservice.keeper.keeper_bundle import compiled_keeper_bytes

    for name in IMPORTED:
        importlib.import_module(name)
    for name in platforms.BUILT_IN:
        with contextlib.suppress(platforms.BrokenPlatform):  # the program says so
            platforms.load_platform(name)
    compiled_keeper_bytes()
    if database:
        preloaded_django.load(database)
    assert "twisted.internet.reactor" not in sys.modules, "what waits for events must not be shared"


def run_python(arguments: Sequence[str], cwd: str, searched: Sequence[str]) -> NoReturn:
    """What ``python ARGUMENTS`` does, in a forked process. It ends as an interpreter does: an uncaught error, exit
    functions, threads, streams. ``searched``: folders that are searched for modules before those of this process.
    """
    sys.path[1:1] = [os.path.abspath(folder) for folder in searched]
    if arguments[0] == "-m":
        sys.argv[:], sys.path[0] = arguments[1:], cwd
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        program = Path(cwd, arguments[0])
        sys.argv[:], sys.path[0] = arguments, str(program.parent)
        runpy.run_path(str(program), run_name="__main__")
    sys.exit()


def _run(asked: dict[str, Any]) -> NoReturn:
    run_python(asked["arguments"], asked["cwd"], search_path_of(asked["env"]))


def search_path_of(env: Mapping[str, str]) -> list[str]:
    return list(filter(None, env.get(SEARCH_PATH, "").split(os.pathsep)))


if __name__ == "__main__":
    database = sys.argv[1]
    serve(int(sys.argv[2]), partial(_load, database), _run,
          take_over=preloaded_django.take_over if database else lambda: True)
