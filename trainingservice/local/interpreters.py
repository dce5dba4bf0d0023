"""What the Pythons that trials find say of themselves: path, version, and which modules they do not have.

A Python is asked as the user as whom the trial runs, with the trial's variables, and is given up after SECONDS. It
imports nothing but the standard library's ``importlib``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from trainingservice import bounded_output
from trainingservice.code.trial_command import PythonCall
from trainingservice.errors import TemporaryError
from trainingservice.local.os_user import OsUser
from trainingservice.local.python_choice import PythonChoice
from trainingservice.local.started_processes import end_marked, marked
from trainingservice.trial_job import Interpreter

#: How long a Python may take to answer, in seconds, and how many bytes it may write. When trials start nothing waits
#: for long.
SECONDS, SECONDS_AT_START, MOST_BYTES = 10.0, 2.0, 64 * 1024
#: For so long, in seconds, what a Python said of itself is not asked again; and so many answers are kept.
KEPT_SECONDS, MOST_KEPT = 300.0, 256

_MARK = "nniweb:"
#: Runs in any Python from 2.7 on. -S and -E leave out what an environment adds: it is quick.
_ABOUT = f"import sys; print('{_MARK}%d.%d.%d ' % sys.version_info[:3] + (sys.executable or ''))"
#: What is in the folder of the call must not be imported instead of the standard library.
_LACKING = f"""
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import importlib.util
lacking = []
for name in sys.argv[1].split(","):
    try:
        if importlib.util.find_spec(name) is None:
            lacking.append(name)
    except Exception:
        pass
print("{_MARK}" + ",".join(lacking))
"""
#: folder, program, options, code, argument, NAME=value ...
#: It is run by its path: where that cannot start, sh would try the next on the PATH, and bash, which runs
#: trials, does not.
_SCRIPT = """
cd -- "$1" 2>/dev/null || cd /
program=$2 options=$3 code=$4 argument=$5
shift 5
for each in "$@"; do export "$each"; done
program=$(command -v "$program") || exit
exec "$program" $options -c "$code" "$argument"
"""


class Interpreters:
    """Remembers for a while what it was told. Methods may be called from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[tuple[object, ...], tuple[float, Interpreter | None]] = {}

    def known(self, call: PythonCall, choice: PythonChoice, inherited: Mapping[str, str], folder: str,
              user: OsUser | None) -> Interpreter | None:
        """As ``ask``, remembered, and for trials that start: it is given up early."""
        key = (call.program, call.folder, folder, choice.variables.get("PATH"), user)
        with self._lock:  # of several that ask at the same time one waits for it, and the others for that one
            known = self._known.get(key)
            if known is not None and self._monotonic() - known[0] < KEPT_SECONDS:
                return known[1]
            found = self.ask(call, choice, inherited, folder, user, SECONDS_AT_START)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[key] = (self._monotonic(), found)
            return found

    def ask(self, call: PythonCall, choice: PythonChoice, inherited: Mapping[str, str], folder: str,
            user: OsUser | None, seconds: float | None = None) -> Interpreter | None:
        """The Python that ``call`` runs in ``folder``; None where there is none, or it does not answer.

        ``inherited``: the trial's other variables. ``user``: None for the server's own. ``seconds``: else SECONDS.
        """
        said = _answer(_ask(call, "-S -E", _ABOUT, "", choice, inherited, folder, user, seconds or SECONDS))
        version, _, path = (said or "").partition(" ")
        return Interpreter(path or call.program, version) if version else None

    def lacking(self, call: PythonCall, names: Sequence[str], choice: PythonChoice, inherited: Mapping[str, str],
                folder: str, user: OsUser | None) -> list[str]:
        """Those of these top-level modules that it does not find; [] where it cannot tell."""
        if not names:
            return []
        said = _answer(_ask(call, "", _LACKING, ",".join(names), choice, inherited, folder, user, SECONDS))
        return [name for name in (said or "").split(",") if name in names]


def _answer(output: bytes) -> str | None:
    """The marked line of what was written, printable; None where there is none."""
    for line in output.decode("utf-8", "replace").splitlines():
        if line.startswith(_MARK):
            return "".join(character for character in line[len(_MARK):] if character.isprintable())
    return None


def _ask(call: PythonCall, options: str, code: str, argument: str, choice: PythonChoice, inherited: Mapping[str, str],
         folder: str, user: OsUser | None, seconds: float) -> bytes:
    """What the Python writes; b"" where there is none, or it fails."""
    place = os.path.join(folder, call.folder)
    variables = {**choice.variables, "PYTHONDONTWRITEBYTECODE": "1"}
    arguments = [place, call.program, options, code, argument,
                 *(f"{name}={value}" for name, value in variables.items())]
    if user is not None:
        try:
            return user.ask(_SCRIPT, *arguments, seconds=seconds, most_bytes=MOST_BYTES)
        except TemporaryError:
            return b""
    environment = {name: value for name, value in inherited.items() if name not in choice.hidden}
    mark = uuid.uuid4().hex
    try:
        process = subprocess.Popen(["/bin/sh", "-c", marked(_SCRIPT, mark), "sh", *arguments],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env=environment, cwd="/", start_new_session=True)
    except (OSError, ValueError):
        return b""
    said = bounded_output.communicate(process, b"", seconds, MOST_BYTES)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # its group has this number until it is waited for
        process.wait()
    end_marked(mark, subprocess.Popen)
    return b"" if said.cut else said.output
