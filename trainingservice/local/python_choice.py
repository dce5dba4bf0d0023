"""Which Python a local trial finds: PATH and the variables of its environment, from the first of these that is given.

1. ``venv``, ``condaEnv``, ``pythonPath`` or ``serverPython`` of the experiment: a folder in front of the PATH.
2. ``environment: {PATH: ...}`` of the experiment.
3. The shell that launched it (``shellEnvironment``).
4. The environment with which the server was started.

The folder of the server's own Python stands last, so that a machine without any other still has one. It is not there
where the experiment gives the whole PATH.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainingservice.local.config import LocalTrialOptions, ShellEnvironment

#: Variables of an environment that is active.
_ACTIVE = frozenset({"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_PROMPT_MODIFIER", "CONDA_SHLVL"})
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
#: Further ones that decide which Python a name means, and what it can import.
_DECISIVE = _ACTIVE | {"PATH", "PYTHONPATH", "PYTHONHOME"}
#: Names of a Python in an environment's folder of programs.
PYTHON_NAMES = ("python3", "python")


@dataclass(frozen=True)
class PythonChoice:
    """``variables``: PATH and others that decide which Python it is, as they are set for the trial; those of ``hidden``
    are not handed on. ``given_by``: the field of the experiment that names an environment, "" for none; ``named`` is
    what it names, and ``programs`` its folder of programs, "" where there is no such environment.
    """

    variables: dict[str, str]
    hidden: frozenset[str] = frozenset()
    given_by: str = ""
    named: str = ""
    programs: str = ""

    def lacks_python(self, may_run_any: Callable[[list[str]], bool]) -> bool:
        """Whether an environment is named that has no Python. ``may_run_any``: whether one of these paths is a program
        that the user of the trial may run."""
        if not self.given_by:
            return False
        return not self.programs or not may_run_any([f"{self.programs}/{name}" for name in PYTHON_NAMES])


def choose_python(options: LocalTrialOptions, given: Mapping[str, str], inherited: Mapping[str, str],
                  home: Path) -> PythonChoice:
    """``given``: the experiment's own variables. ``inherited``: what the trial's user has of the server's.
    ``home``: of that user.
    """
    shell = options.shell_environment
    programs, active, given_by, named = _asked_for(options, home, inherited)
    rest = given.get("PATH") or (shell.path if shell else "") or inherited.get("PATH") or _DEFAULT_PATH
    if shell is not None and "PATH" not in given and not (programs or given_by):
        programs, given_by, named = _active_in(shell)
        active = {name: value for name, value in (("VIRTUAL_ENV", shell.virtual_env),
                                                  ("CONDA_PREFIX", shell.conda_prefix)) if value}
    own = str(Path(sys.executable).parent)
    path = rest.split(os.pathsep)
    if programs and given_by != "shellEnvironment":
        path.insert(0, programs)
    if "PATH" not in given and own not in path:
        path.append(own)
    variables = {**active, **{name: value for name, value in given.items() if name in _DECISIVE}}
    is_chosen = bool(programs or given_by) or shell is not None or "PATH" in given
    return PythonChoice({**variables, "PATH": os.pathsep.join(path)}, _ACTIVE if is_chosen else frozenset(), given_by,
                        named, programs)


def _asked_for(options: LocalTrialOptions, home: Path, inherited: Mapping[str, str]
               ) -> tuple[str, dict[str, str], str, str]:
    """Folder of programs, variables, the field that names it, and what it names; all empty where there is none."""
    if options.venv:
        folder = _expanded(options.venv, home)
        return f"{folder}/bin", {"VIRTUAL_ENV": folder}, "venv", options.venv
    if options.conda_env:
        folder = _conda_folder(options, home, inherited)
        if not folder:
            return "", {}, "condaEnv", options.conda_env
        variables = {"CONDA_PREFIX": folder, "CONDA_DEFAULT_ENV": options.conda_env}
        return f"{folder}/bin", variables, "condaEnv", options.conda_env
    if options.python_path:
        return _expanded(options.python_path, home), {}, "pythonPath", options.python_path
    if options.server_python:
        is_virtual = sys.prefix != sys.base_prefix
        return str(Path(sys.executable).parent), {"VIRTUAL_ENV": sys.prefix} if is_virtual else {}, "", ""
    return "", {}, "", ""


def _active_in(shell: ShellEnvironment) -> tuple[str, str, str]:
    """The environment that was active, where its programs are on the PATH."""
    for folder in (shell.virtual_env, shell.conda_prefix):
        if folder and f"{folder}/bin" in shell.path.split(os.pathsep):
            return f"{folder}/bin", "shellEnvironment", folder
    return "", "", ""


def _expanded(path: str, home: Path) -> str:
    return os.path.normpath(str(home) + path[1:] if path.startswith("~/") else path)


def _conda_folder(options: LocalTrialOptions, home: Path, inherited: Mapping[str, str]) -> str:
    """"" where no environment of this name is known."""
    name = options.conda_env or ""
    if name.startswith(("/", "~/")):
        return _expanded(name, home)
    shell = options.shell_environment
    prefixes = [shell.conda_prefix if shell else "", inherited.get("CONDA_PREFIX", "")]
    roots = [str(Path(prefix).parents[1]) if Path(prefix).parent.name == "envs" else prefix
             for prefix in prefixes if prefix]
    if inherited.get("CONDA_EXE"):
        roots.append(str(Path(inherited["CONDA_EXE"]).parents[1]))
    known = conda_environments_of(home)
    found = [root if name == "base" else f"{root}/envs/{name}" for root in roots]
    found += [folder for folder in known if Path(folder).name == name]
    return next((folder for folder in found if os.path.isdir(f"{folder}/bin")), "")


def conda_environments_of(home: Path) -> list[str]:
    """The folders of the environments that conda has made for the user with this home, as it lists them there."""
    try:
        with open(home / ".conda" / "environments.txt", encoding="utf-8", errors="replace") as listed:
            return [line.strip() for line in listed.read(1024 * 1024).splitlines() if line.startswith("/")]
    except OSError:
        return []
