"""Whether a trial's command is one call of Python that a warm parent can serve, and what it asks for."""

import os
import re
import shlex
import shutil
from typing import Dict, List, Mapping, NamedTuple, Optional

from trialkeeper.whole_number import whole_number

#: Options of Python that stand alone, and those that have a value.
_FLAGS, _WITH_VALUE = re.compile(r"-[bBdEIOPqsSuv]+\Z"), ("-W", "-X")
_PYTHON = re.compile(r"python[0-9.]*\Z")
#: What the shell would not pass on as it is.
_SHELL = re.compile(r"[$`;&|<>()*?\[\]{}~!\\\n#]")
#: Variables with which bash itself does more than to call the command.
_OF_SHELL = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS")


class NotWarm(Exception):
    """The trial is started plainly. ``cause``: one of contract.PLAIN_START_CAUSES, or one that is not told."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(cause)
        self.cause, self.detail = cause, detail


class PythonCall(NamedTuple):
    """``python [options] script.py [arguments]``, or with ``-m module``."""

    #: As in the command; what it is on the PATH; the options.
    program: str
    path: str
    options: List[str]
    #: "file" or "module", and which.
    kind: str
    target: str
    arguments: List[str]

    def words(self) -> List[str]:
        """The command, word by word."""
        before = ["-m"] if self.kind == "module" else []
        return [self.program, *self.options, *before, self.target, *self.arguments]


def python_call_of(command: str, directory: str, environment: Mapping[str, str]) -> PythonCall:
    """What a shell would call in ``directory``. Raises NotWarm where the command is anything else."""
    call = _parsed(command)
    if call is None:
        raise NotWarm("command")
    for name in environment:
        if name in _OF_SHELL or name.startswith("BASH_FUNC_"):
            raise NotWarm("variable", name)
    path = _found(call.program, directory, environment)
    if path is None:
        raise NotWarm("command")
    if call.kind == "file":
        script = os.path.join(directory, call.target)
        if not os.path.isfile(script) or not script.endswith(".py"):
            raise NotWarm("command")
    return call._replace(path=path)


def environment_by_shell(environment: Mapping[str, str], directory: str, path: str) -> Dict[str, str]:
    """With what bash adds to it for a command that it runs."""
    level = environment.get("SHLVL", "")
    return {**environment, "PWD": directory, "SHLVL": str(whole_number(level) or 0), "_": path}


def _parsed(command: str) -> Optional[PythonCall]:
    if _SHELL.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or not _PYTHON.match(os.path.basename(words[0])):
        return None
    options: List[str] = []
    rest = words[1:]
    while rest:
        word = rest[0]
        if word in _WITH_VALUE and len(rest) > 1:
            options += rest[:2]
            rest = rest[2:]
        elif _FLAGS.match(word) or (word[:2] in _WITH_VALUE and len(word) > 2):
            options.append(word)
            rest = rest[1:]
        else:
            break
    if len(rest) > 1 and rest[0] == "-m" and re.fullmatch(r"[\w.]+", rest[1]):
        return PythonCall(words[0], "", options, "module", rest[1], rest[2:])
    if rest and not rest[0].startswith("-"):
        return PythonCall(words[0], "", options, "file", rest[0], rest[1:])
    return None


def _found(program: str, directory: str, environment: Mapping[str, str]) -> Optional[str]:
    if "/" in program:
        path = os.path.join(directory, program)
        return path if os.access(path, os.X_OK) and os.path.isfile(path) else None
    for folder in environment.get("PATH", "").split(os.pathsep):
        found = shutil.which(program, path=os.path.join(directory, folder)) if folder else None
        if found:
            return found
    return None
