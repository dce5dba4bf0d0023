"""Keepers and agents, each forked from a process that has imported them already.

What runs is ``trialkeeper`` from its first line; what it starts in its turn is started as always. With another Python,
or with variables that Python reads when it starts, it is started plainly.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.forking.forker import ROOT, ForkedProcess, Forker, forker_of_this_process, serve

#: What the interpreter or the C library read when they start, beside encoding and time zone.
_READ_AT_START = ("LD_", "MALLOC_", "PYTHON")
#: Of these, what makes no difference to a keeper.
_MAY_DIFFER = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
#: A keeper has the standard library alone.
_WITHOUT_PACKAGES = ("-I", "-S", "-c", "import sys; sys.path.insert(0, sys.argv[1]); "
                     "from tests.forking.keepers import main; main(int(sys.argv[2]))", str(ROOT))


def can_fork(python: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a keeper that this Python would run, with this environment, may be forked."""
    def read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items()
                if name.startswith(_READ_AT_START) and name not in _MAY_DIFFER
                # where our modules are; in other folders there may be one that Python imports at its start
                and not (name == "PYTHONPATH" and value in ("", str(ROOT)))}

    return sys.platform == "linux" and python is not None and Path(python).parent == Path(sys.executable).parent \
        and read_at_start(environment).items() <= read_at_start(os.environ).items() \
        and _is_utf8(os.environ) and _is_utf8(environment)


def _locale_of(environment: Mapping[str, str]) -> str:
    return next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "C")


def _is_utf8(environment: Mapping[str, str]) -> bool:
    """Python sees to it in the locale C (PEP 538)."""
    locale = _locale_of(environment)
    return locale in ("C", "POSIX") or locale.lower().replace("-", "").endswith(".utf8")


def start(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], archive: Path | None = None,
          stdin: int | IO[bytes] | None = subprocess.DEVNULL, stdout: int | IO[bytes] | None = None,
          stderr: int | IO[bytes] | None = None, start_new_session: bool = True) -> ForkedProcess:
    """``python keeper.pyz ARGUMENTS``. ``archive``: the zipapp that it takes itself for; else it is the source tree.

    Streams are as in Popen: PIPE, DEVNULL, STDOUT, a file, None for that of this process.
    """
    keeper = forker_of_this_process("keepers", _forker).start(
        arguments, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=start_new_session,
        archive=None if archive is None else str(archive))
    assert keeper is not None
    return keeper


def _forker() -> Forker:
    # with nothing of the test for which it is started first: it would count as one of its processes
    return Forker(_WITHOUT_PACKAGES, cwd=Path("/"), env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"})


# --- the process that forks ----------------------------------------------------------------


def main(descriptor: int) -> None:
    serve(descriptor, _load, _run)


def _load() -> None:
    import ctypes  # noqa: F401  # what an agent imports for its keepers, and its children for themselves
    import zipfile  # noqa: F401

    import trialkeeper.__main__
    import trialkeeper.agent
    import trialkeeper.folder_removal
    import trialkeeper.pod  # noqa: F401


class _Archive:
    """Reads files of the zipapp for ``pkgutil``, as the loader of what was imported from it would."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_data(self, path: str) -> bytes:
        import zipimport
        return zipimport.zipimporter(self._path).get_data(path)


def _run(asked: dict[str, Any]) -> NoReturn:
    """It ends as an interpreter does."""
    import traceback

    import trialkeeper
    from trialkeeper.__main__ import main as keep

    if _locale_of(os.environ) in ("C", "POSIX") and "LC_ALL" not in os.environ:
        os.environ["LC_CTYPE"] = "C.UTF-8"  # as Python does when it starts
    archive = asked["archive"] or str(ROOT)
    if asked["archive"]:
        trialkeeper.__file__ = os.path.join(archive, "trialkeeper", "__init__.pyc")
        trialkeeper.__path__ = [os.path.join(archive, "trialkeeper")]
        assert trialkeeper.__spec__ is not None
        trialkeeper.__loader__ = trialkeeper.__spec__.loader = _Archive(archive)  # type: ignore[assignment]
    sys.path[0] = archive
    sys.argv[:] = [archive if asked["archive"] else os.path.join(archive, "trialkeeper", "__main__.py"),
                   *asked["arguments"]]
    status = 1
    try:
        status = keep(asked["arguments"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for output in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                output.flush()
        os._exit(status)
