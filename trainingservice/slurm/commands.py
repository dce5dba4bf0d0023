"""Slurm's commands, on the machine where they are run. Their outputs become rows, their refusals sentences.

No question is put for one job where one can be put for all: a controller that many people poll becomes slow for
everybody.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence

from trainingservice.errors import TemporaryError
from trainingservice.slurm.queue_rows import ACCOUNT_FORMAT, QUEUE_FORMAT, JobRow, account_rows, queue_rows
from trainingservice.slurm.refusals import refusal
from trainingservice.submit_host.host import NOT_FOUND, TIMEOUT, Finished, SubmitHost, Unanswered

#: Seconds sbatch may take: longer than it waits for the controller by itself, so that it says what came of it.
SUBMIT_TIMEOUT = 60.0
#: How far back accounts are searched for a job of which only the name is known.
ACCOUNT_DAYS = 30
_JOB_ID = re.compile(r"(\d+)(;\S+)?")
_SECONDS = ("env", "SLURM_TIME_FORMAT=%s")
#: What scancel says of jobs that have ended already, and of those that have not begun where it signals.
_NOTHING_TO_CANCEL = ("invalid job id", "already completing or completed", "already been completed",
                      "can not be altered now", "job is pending", "not running")


class NoProgram(TemporaryError):
    """A command of Slurm is not there: a person has to install it, or to say where it is."""


class SlurmCommands:
    """All methods may be called from any thread. Raise TemporaryError with a sentence where Slurm cannot be asked."""

    def __init__(self, host: SubmitHost, program_folder: str | None = None) -> None:
        self.host = host
        self._folder = program_folder
        self._user = ""
        self._lock = threading.Lock()
        #: Whether sacct works here; None while nobody has asked.
        self.keeps_accounts: bool | None = None

    # --- questions -------------------------------------------------------------------------

    def queue(self, name: str = "") -> list[JobRow]:
        """All jobs of the user that Slurm still shows, those that ended a while ago too; or those of one name."""
        arguments = [*_SECONDS, self._program("squeue"), "--noheader", "--states=all", f"--user={self.user()}",
                     f"--Format={QUEUE_FORMAT}"]
        done = self._ask([*arguments, f"--name={name}"] if name else arguments, "squeue")
        return queue_rows(done.output)

    def accounts(self, job_ids: Collection[str] = (), names: Collection[str] = ()) -> list[JobRow]:
        """Jobs that the queue has forgotten, from the accounts; [] where the cluster keeps none."""
        rows: list[JobRow] = []
        if job_ids:
            rows += self._accounts(f"--jobs={','.join(sorted(job_ids))}")
        if names:
            rows += self._accounts(f"--name={','.join(sorted(names))}", f"--starttime=now-{ACCOUNT_DAYS}days")
        return rows

    def _accounts(self, *choice: str) -> list[JobRow]:
        if self.keeps_accounts is False:
            return []
        done = self.host.run([*_SECONDS, self._program("sacct"), "--noheader", "--parsable2", "--allocations",
                              f"--user={self.user()}", f"--format={ACCOUNT_FORMAT}", *choice])
        if done.status == NOT_FOUND or "accounting storage is disabled" in done.errors.lower():
            self.keeps_accounts = False
            return []
        if done.status:
            raise TemporaryError(f"Slurm's accounts cannot be read on {self.host.name}: {done.said}")
        self.keeps_accounts = True
        return account_rows(done.output)

    def version(self, timeout: float = TIMEOUT) -> str:
        """Such as ``slurm 23.11.4``. Asks the program, not the controller."""
        return self._ask([self._program("sbatch"), "--version"], "sbatch", timeout).output.strip()

    def ping(self, timeout: float = TIMEOUT) -> str:
        """What the controllers say. Raises TemporaryError where none is up."""
        done = self.host.run([self._program("scontrol"), "ping"], timeout=timeout)
        if done.status or " is UP" not in done.output:
            raise TemporaryError(f"Slurm's controller does not answer on {self.host.name} "
                                 f"({done.said or 'it printed nothing'}). Wait, or ask the cluster's administrators.")
        return " ".join(done.output.split())

    def setting(self, name: str) -> str:
        """One line of the controller's configuration, "" where there is none of that name."""
        done = self._ask([self._program("scontrol"), "show", "config"], "scontrol")
        found = re.search(rf"^{re.escape(name)}\s*=\s*(.*)$", done.output, re.MULTILINE)
        return found[1].strip() if found else ""

    def down(self, nodes: Collection[str]) -> list[str]:
        """Those of the nodes that are down, or that the controller has lost contact with."""
        done = self._ask([self._program("sinfo"), "--noheader", "--Node", f"--nodes={','.join(sorted(nodes))}",
                          "--format=%N %T"], "sinfo")
        states = [line.split() for line in done.output.splitlines() if len(line.split()) == 2]
        return sorted({name for name, state in states if name in nodes and (
            state.startswith(("down", "fail", "error")) or state.endswith("*"))})

    def user(self) -> str:
        """Whose jobs these are on the machine where commands are run."""
        with self._lock:
            if not self._user:
                done = self.host.run(["id", "-un"])
                if done.status or not done.output.strip():
                    raise TemporaryError(f"The name of the user on {self.host.name} cannot be read: {done.said}")
                self._user = done.output.strip().splitlines()[-1]
            return self._user

    # --- deeds -----------------------------------------------------------------------------

    def submit(self, arguments: Sequence[str], script: str) -> str:
        """Hand a job over; its id. Raises NotRun (certainly not taken), Unanswered (perhaps), MustWait,
        PermanentError."""
        done = self.host.run([self._program("sbatch"), "--parsable", *arguments], script, SUBMIT_TIMEOUT)
        for line in reversed(done.output.splitlines()):
            found = _JOB_ID.fullmatch(line.strip())
            if found and done.status == 0:
                return found[1]
        if done.status == NOT_FOUND:
            raise self._no_program("sbatch")
        raise refusal(done, self.host.name)

    def would_take(self, arguments: Sequence[str], script: str, timeout: float = TIMEOUT) -> None:
        """Ask whether such a job would be taken; nothing is started. Raises as ``submit``."""
        done = self.host.run([self._program("sbatch"), "--test-only", *arguments], script, timeout)
        if done.status == NOT_FOUND:
            raise self._no_program("sbatch")
        if done.status:
            raise refusal(done, self.host.name)

    def cancel(self, job_id: str = "", name: str = "", *, gently: bool = False) -> None:
        """End a job by its id, or all of the user's jobs of that name. Harmless where there is none.

        A job that waits is removed. Of one that runs all processes are told to end (TERM), and after KillWait they are
        killed; ``gently``: only its batch process is told, which is the keeper, and nothing is killed.
        """
        choice = [job_id] if job_id else [f"--user={self.user()}", f"--name={name}"]
        if gently:
            self._scancel("--state=PENDING", *choice)
            self._scancel("--batch", "--signal=TERM", *choice)
        else:
            self._scancel(*choice)

    def _scancel(self, *arguments: str) -> None:
        try:
            done = self.host.run([self._program("scancel"), *arguments])
        except Unanswered as error:
            raise TemporaryError(str(error)) from error
        if done.status == NOT_FOUND:
            raise self._no_program("scancel")
        if done.status and not any(text in done.errors.lower() for text in _NOTHING_TO_CANCEL):
            raise TemporaryError(f"scancel could not end a job: {done.said}")

    # --- how -------------------------------------------------------------------------------

    def _program(self, name: str) -> str:
        return f"{self._folder}/{name}" if self._folder else name

    def _ask(self, command: Sequence[str], program: str, timeout: float = TIMEOUT) -> Finished:
        done = self.host.run(command, timeout=timeout)
        if done.status == NOT_FOUND:
            raise self._no_program(program)
        if done.status:
            raise TemporaryError(f"Slurm does not answer on {self.host.name}: {done.said}")
        return done

    def _no_program(self, name: str) -> NoProgram:
        where = f"in {self._folder} on {self.host.name}" if self._folder else f"on the PATH of {self.host.name}"
        return NoProgram(f"There is no command {name} {where}. Install Slurm's client programs there, set loginNode to "
                         "a machine that has them, or name their folder in programFolder.", retry_after=60.0)
