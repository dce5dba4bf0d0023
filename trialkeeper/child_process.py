"""The trial's own process: started in a session of its own, ended with its whole tree."""

import contextlib
import os
import signal
import subprocess
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from trialkeeper import machine
from trialkeeper.process_tree import ProcessTree
from trialkeeper.shortage import is_shortage

#: Seconds after the first KILL until a process that does not die (it hangs in the kernel) is left behind.
PATIENCE_AFTER_KILL = 30.0
#: Seconds between two looks at what is left of a tree.
LOOK_INTERVAL = 0.05


class CannotStart(Exception):
    """The trial's command could not be started. ``str(error)`` is a sentence for the trial's page."""


class NoRoom(Exception):
    """The machine has no process or memory to spare for the command now; the same may succeed later."""


class ChildProcess:
    """The first process of a trial. Started by the constructor; raises CannotStart, NoRoom."""

    #: Nobody has seen how it ended.
    is_lost = False
    #: The process whose descendants the trial's processes are; None: this one.
    beside: Optional[int] = None
    #: Why it ended (one of contract.END_REASONS, and a sentence) where its command is not why.
    failure: Optional[Tuple[str, str]] = None

    def __init__(self, command: str, working_directory: str, environment: Dict[str, str], stdout: str,
                 stderr: str, words: Optional[Sequence[str]] = None) -> None:
        """``stdout`` and ``stderr``: files that are appended to. ``words``: the program that is started, where it is
        not a shell with the command.
        """
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        if not os.path.isdir(working_directory):
            raise CannotStart("the folder %s does not exist on %s; the command should run in it"
                              % (working_directory, machine.host()))
        try:
            with open(stdout, "ab") as out, open(stderr, "ab") as err:
                self._popen = subprocess.Popen(list(words or [shell, "-c", command]), cwd=working_directory,
                                               env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                               start_new_session=True)
        except (OSError, ValueError, MemoryError) as error:
            if is_shortage(error):
                raise NoRoom(str(error) or type(error).__name__) from error
            raise CannotStart("the command could not be started with %s in %s on %s: %s"
                              % (words[0] if words else shell, working_directory, machine.host(), error)) from error
        self.pid = self._popen.pid
        self.start_time = machine.process_start_time(self.pid)
        self.exit_code: Optional[int] = None
        self.signal: Optional[int] = None
        self.has_ended = False

    def reap(self) -> bool:
        """Collect ended children, orphans of the trial too; True once the first process has ended. Never blocks."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.pid:
                self.has_ended = True
                if os.WIFSIGNALED(status):
                    self.signal = os.WTERMSIG(status)
                else:
                    self.exit_code = os.WEXITSTATUS(status)
                self._popen.returncode = 0 if self.exit_code is None else self.exit_code  # nobody else shall wait
        return self.has_ended


class TreeEnding:
    """Ends a whole tree: TERM, after the grace period KILL, until nothing is left. The owner calls ``step``."""

    def __init__(self, tree: ProcessTree, grace_period: float, clock: Callable[[], float],
                 first: int = signal.SIGTERM) -> None:
        """``clock``: monotonic seconds; ``first``: what is sent in place of TERM. Nothing is sent before the first
        ``step``.
        """
        self._tree = tree
        self._clock = clock
        self._first = first
        self._began = clock()
        self._kill_at = self._began + grace_period
        self._told: Set[int] = set()
        self.left_behind = 0  #: processes that even KILL did not end

    def hurry(self, grace_period: float) -> None:
        """Kill sooner: so many seconds after the beginning."""
        self._kill_at = min(self._kill_at, self._began + grace_period)

    def step(self) -> bool:
        """Look and send what is due; True when nothing is left (or nothing can be done about it)."""
        if self._tree.is_empty():
            return True
        now = self._clock()
        members = self._tree.members()
        if now >= self._kill_at + PATIENCE_AFTER_KILL:
            self.left_behind = len(members)
            return True
        if now >= self._kill_at:
            self._tree.kill_group()
            _send(members, signal.SIGKILL)
        else:
            # each process hears it once, also those that were born meanwhile
            new = [pid for pid in members if pid not in self._told]
            self._told.update(new)
            _send(new, self._first)
            _send(new, signal.SIGCONT)  # one that was stopped could not hear it
        return not members


def _send(pids: List[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # gone in the meantime, or another user's now
            os.kill(pid, number)
