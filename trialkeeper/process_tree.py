"""Which processes belong to a trial, also those that left its session or their parents.

While the keeper that started the trial lives it is, on Linux, the reaper of the trial's orphans: every process of
the tree is a descendant of the keeper, whatever it did to hide. A keeper that took over (or one on another
system) goes by the trial's control group, where it has one, by the trial's session, by a mark in the environment, and
by what the machine's agent got as orphans when the keeper was killed.
"""

import contextlib
import os
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from trialkeeper import machine
from trialkeeper.control_group import ControlGroup

#: Variable of the trial's environment whose value only this attempt's processes have.
MARK_VARIABLE = "NNI_KEEPER_ATTEMPT"
_PR_SET_CHILD_SUBREAPER = 36


def become_reaper_of_orphans() -> bool:
    """Make orphans below this process its children (Linux). False where that is not possible."""
    try:
        import ctypes
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def descendants(pids: Iterable[int], table: Sequence[Tuple[int, int, int, int]]) -> Set[int]:
    """The processes that these have started, those started by them, and so on. ``table``: all, with their parents."""
    children: Dict[int, List[int]] = {}
    for pid, parent, _, _ in table:
        children.setdefault(parent, []).append(pid)
    found: Set[int] = set()
    waiting = list(pids)
    while waiting:
        new = [child for child in children.get(waiting.pop(), []) if child not in found]
        found.update(new)
        waiting += new
    return found


class ProcessTree:
    """The processes of one trial."""

    def __init__(self, mark: str, first_pid: int, first_start_time: Optional[str], *, own_children: bool,
                 reaps_orphans: bool, group: Optional[ControlGroup] = None,
                 orphans: Sequence[Tuple[int, Optional[str]]] = ()) -> None:
        """``first_pid``: of the trial's first process, the leader of its session; 0: not known.

        ``own_children``: this process started the trial. Whatever else it starts (nvidia-smi) is counted in.
        ``group``: what holds the trial's processes, as far as that is known. ``orphans``: (pid, start time) of
        processes that are known to be the trial's.
        """
        #: May be set when it is made.
        self.group = group
        self._orphans = orphans
        self._mark = ("%s=%s" % (MARK_VARIABLE, mark)).encode()
        self._first_pid = first_pid
        self._first_start_time = first_start_time
        self._own_children = own_children
        self._reaps_orphans = own_children and reaps_orphans

    def is_empty(self) -> bool:
        """Whether nothing of the trial runs any more."""
        if self._reaps_orphans:
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True  # no children at all: the quick and usual case
        return not self.members()

    def members(self) -> List[int]:
        """Process ids of the trial's processes, without zombies. A snapshot: look again until there are none."""
        table = machine.process_table()
        me = os.getpid()
        found: Set[int] = set()
        if self._own_children:
            found.update(pid for pid, parent, _, _ in table if parent == me)
        if not self._reaps_orphans:
            found.update(self._by_session_and_mark(table))
            found.update(pid for pid, start_time in self._orphans if machine.process_lives(pid, start_time))
            if self.group is not None:
                found.update(self.group.members())
        found.discard(me)
        return sorted((found | descendants(found, table)) - {me})

    def members_for_readings(self) -> List[int]:
        """The same, zombies too, without a look at all processes of the machine where that is possible: one that begins
        or ends meanwhile, or its brother, may be missing.
        """
        return machine.descendants_of(os.getpid()) if self._reaps_orphans else self.members()

    def hand_on(self, number: int) -> None:
        """Send a signal to the trial's processes that have a handler for it, but to none that such a one has started.

        It would end the others, and helpers that a training process has forked have its handler.
        """
        members = set(self.members())
        parents = {pid: parent for pid, parent, _, _ in machine.process_table()}
        catching = {pid for pid in members if machine.catches(pid, number)}
        for pid in catching:
            parent = parents.get(pid)
            while parent in members and parent not in catching:
                parent = parents.get(parent)
            if parent not in catching:
                with contextlib.suppress(OSError):  # it has ended
                    os.kill(pid, number)

    def kill_group(self) -> None:
        """KILL to all that the control group holds, at once; nothing where there is none."""
        if self.group is not None:
            self.group.kill()

    def _by_session_and_mark(self, table: List[Tuple[int, int, int, int]]) -> List[int]:
        # A number that is in use as a session is not given to a new process, so a living leader vouches for all
        # of its session. Without it the number may have come round: then only the mark counts.
        leads = self._own_children or machine.process_lives(self._first_pid, self._first_start_time)
        return [pid for pid, _, group, session in table
                if (leads and self._first_pid in (group, session)) or self._is_marked(pid)]

    def _is_marked(self, pid: int) -> bool:
        return self._has_variable(pid, self._mark)

    @staticmethod
    def _has_variable(pid: int, variable: bytes) -> bool:
        """``variable``: name, an equals sign and the value."""
        try:
            with open("/proc/%d/environ" % pid, "rb") as stream:
                return variable in stream.read().split(b"\0")
        except OSError:
            return False


def is_of_a_trial(pid: int) -> Optional[bool]:
    """Whether a process of this machine was started by a trial, of whatever attempt. None: there is no such process.
    One whose environment cannot be read is another user's, and so no trial's.
    """
    if machine.process_stat(pid) is None:
        return None
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            return ("\0%s=" % MARK_VARIABLE).encode() in b"\0" + stream.read()
    except OSError:
        return False
