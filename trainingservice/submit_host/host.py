"""Runs commands where a scheduler takes them, and says of each that went wrong whether it may have been obeyed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainingservice import bounded_output
from trainingservice.errors import TemporaryError
from trainingservice.local.environment import allowed_environment
from trainingservice.submit_host.disk import Disk, LocalDisk

#: Seconds one command may take.
TIMEOUT = 30.0
#: Exit status of a shell that does not find the program.
NOT_FOUND = 127
#: What commands see of the server's environment beside what trials see: where their scheduler is.
_SCHEDULERS = ("SLURM_", "PBS_", "LSF_", "LSB_", "EGO_", "SGE_", "CONDOR_", "_CONDOR_", "KRB5")


class NotRun(TemporaryError):
    """The command was certainly not begun: it can be given again without harm."""

    reason_code = "unreachable"


class Unanswered(TemporaryError):
    """The command may have been run, and nobody knows what came of it."""


@dataclass(frozen=True)
class Finished:
    """What a command left."""

    status: int
    output: str
    errors: str

    @property
    def said(self) -> str:
        """For a person: the last lines of what it complained about, else of what it printed, on one line."""
        return " ".join((self.errors.strip() or self.output.strip())[-300:].split())


class SubmitHost(Protocol):
    """Any method may be called from any thread."""

    #: How people call it.
    name: str
    #: The disk on which its jobs' files are.
    disk: Disk

    def run(self, command: str | Sequence[str], text: str = "", timeout: float = TIMEOUT) -> Finished:
        """Run a program with its arguments, or a text of sh, with ``text`` as its input. Raises NotRun, Unanswered."""

    def close(self) -> None:
        """End connections. May be repeated."""


class ThisMachine:
    """Commands run as the server's user, with the part of its environment that trials may see, too."""

    name = "this machine"

    def __init__(self) -> None:
        self.disk: Disk = LocalDisk()

    def run(self, command: str | Sequence[str], text: str = "", timeout: float = TIMEOUT) -> Finished:
        arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        environment = allowed_environment() | {name: value for name, value in os.environ.items()
                                               if name.startswith(_SCHEDULERS)}
        try:
            process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=environment, cwd="/", start_new_session=True)
        except FileNotFoundError:
            return Finished(NOT_FOUND, "", f"there is no program {arguments[0]} here")
        except OSError as error:
            raise NotRun(f"{arguments[0]} cannot be started on this machine ({error.strerror}). Free disk space, or "
                         "correct the permissions there.") from error
        said = bounded_output.communicate(process, text.encode(), timeout)
        if said.cut:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Unanswered(f"{_named(command)} printed too much on this machine and was ended." if said.cut == "size"
                             else f"{_named(command)} has not answered on this machine within {timeout:.0f} s and was "
                             "ended.")
        return Finished(process.returncode, said.output.decode(errors="replace"),
                        said.complaint.decode(errors="replace"))

    def close(self) -> None:
        """There is nothing to end."""


def _named(command: str | Sequence[str]) -> str:
    return f"The command {command.split()[0] if isinstance(command, str) and command.split() else command[0]}"
