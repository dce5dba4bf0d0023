"""The Python of local trials: which one an experiment's trials find, whether it is there, and what it lacks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from trainingservice.base import RehearsalFinding
from trainingservice.code.script_imports import script_imports
from trainingservice.code.trial_command import called_program, python_call
from trainingservice.errors import TemporaryError
from trainingservice.local.agents import LocalAgents
from trainingservice.local.config import LocalTrialOptions
from trainingservice.local.environment import allowed_environment
from trainingservice.local.interpreters import Interpreters
from trainingservice.local.os_user import OsUser
from trainingservice.local.python_choice import PythonChoice, choose_python
from trainingservice.reasons import Reason
from trainingservice.trial_job import Interpreter

#: Modules that a trial has in any Python: the keeper brings it.
_BROUGHT = frozenset({"nni"})
#: So many missing modules are named.
_MOST_NAMED = 10


class LocalPythons:
    """Nothing here starts an agent. Methods may be called from any thread."""

    def __init__(self, machine: str, agents: LocalAgents, monotonic: Callable[[], float]) -> None:
        self._machine = machine
        self._agents = agents
        self._interpreters = Interpreters(monotonic)

    def choose(self, options: LocalTrialOptions, environment: Mapping[str, str]) -> PythonChoice:
        """``environment``: the experiment's own variables. Raises CannotRunAs."""
        user = self._user(options.os_user())
        inherited = allowed_environment() if user is None else user.environment()
        return choose_python(options, environment, inherited, Path.home() if user is None else user.home)

    def surroundings(self, os_user: str, choice: PythonChoice) -> tuple[dict[str, str], list[str]]:
        """Variables that a trial of this user ("": the server's own) has besides, and names of those that it inherits.
        Raises CannotRunAs.
        """
        user = self._user(os_user)
        if user is None:
            return {}, sorted(set(allowed_environment()) - choice.hidden)
        return {name: value for name, value in user.environment().items() if name not in choice.hidden}, []

    def lacking(self, choice: PythonChoice, options: LocalTrialOptions) -> Reason | None:
        """Why the Python that was asked for cannot be used; None where it can. Raises CannotRunAs."""
        user = self._user(options.os_user())
        may_run_any = _may_run_any if user is None else user.may_run_any
        if not choice.lacks_python(may_run_any):
            return None
        return Reason("no_python", machine=self._machine, named=choice.named, given_by=choice.given_by,
                      user=options.os_user())

    def findings(self, options: LocalTrialOptions) -> list[RehearsalFinding]:
        """Of a rehearsal: that what was asked for is not there."""
        try:
            reason = self.lacking(self.choose(options, {}), options)
        except TemporaryError as error:
            return [RehearsalFinding("python", False, str(error), self._machine, temporary=True)]
        return [] if reason is None else [RehearsalFinding("python", False, reason, self._machine)]

    def interpreter(self, command: str, choice: PythonChoice, options: LocalTrialOptions, folder: str
                    ) -> Interpreter | None:
        """The Python that the command runs in ``folder``; None where that is not known."""
        call = python_call(command)
        if call is None:
            return None
        try:
            user = self._user(options.os_user())
        except TemporaryError:
            return None
        return self._interpreters.known(call, choice, allowed_environment(), folder, user)

    def check_command(self, command: str, code: Path | None, environment: Mapping[str, str],
                      options: LocalTrialOptions) -> list[RehearsalFinding]:
        """As ``TrainingService.check_command``."""
        if absent := self.findings(options):
            return absent
        call = python_call(command)
        if call is None:
            return self._program(command, environment, options)
        try:
            choice, user = self.choose(options, environment), self._user(options.os_user())
            folder = "/" if code is None or options.copies_code() else str(code)
            found = self._interpreters.ask(call, choice, allowed_environment(), folder, user)
            if found is None:
                return [RehearsalFinding("python", False,
                                         f"There is no {call.program} on the PATH of trials, or it does not answer. "
                                         "Launch from a shell that finds it, or name its environment in venv or "
                                         "condaEnv.", self._machine, temporary=True)]
            which = f"{found.path} (Python {found.version})"
            imports = [] if code is None else [
                each for each in script_imports(code, call.folder, script=call.script, module=call.module)
                if each.name not in _BROUGHT]
            lacking = self._interpreters.lacking(call, [each.name for each in imports], choice, allowed_environment(),
                                                 folder, user)
        except TemporaryError as error:
            return [RehearsalFinding("python", False, str(error), self._machine, temporary=True)]
        if not lacking:
            return [RehearsalFinding("python", True, f"Trials run with {which}.", self._machine)]
        where = [f"{each.name} ({each.file}, line {each.line})" for each in imports if each.name in lacking]
        more = f" and {len(where) - _MOST_NAMED} more" if len(where) > _MOST_NAMED else ""
        return [RehearsalFinding("python", False, f"Trials run with {which}, which does not have what the script "
                                 f"imports: {', '.join(where[:_MOST_NAMED])}{more}. Install it there, launch from a "
                                 "shell in which the right environment is active, or name that environment in venv or "
                                 "condaEnv.", self._machine, temporary=True)]

    def _program(self, command: str, environment: Mapping[str, str], options: LocalTrialOptions
                 ) -> list[RehearsalFinding]:
        """That the program which a command calls is not there. Of trials that run as other users nothing is said."""
        program = called_program(command)
        if not program or options.os_user():
            return []
        path = self.choose(options, environment).variables.get("PATH") or allowed_environment().get("PATH")
        if shutil.which(program, path=path):
            return []
        return [RehearsalFinding("program", False, f"There is no program {program} on the PATH of trials. Launch from "
                                 "a shell that finds it, or give its path in trialCommand.", self._machine,
                                 temporary=True)]

    def _user(self, os_user: str) -> OsUser | None:
        folder = self._agents.user_folder(os_user)
        return None if folder is None else folder.user


def _may_run_any(programs: list[str]) -> bool:
    return any(os.path.isfile(program) and os.access(program, os.X_OK) for program in programs)
