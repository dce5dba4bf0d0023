"""Control groups (cgroup v2, Linux): what is in a group stays in it, whatever a process does to hide, and so does
all that it starts.

A trial's processes are taken into a group of their own once the trial has run for a moment. They are not started in
it: to enter a group costs milliseconds of waiting in the kernel, and most of what is short would wait longer for that
than it runs. Where no group can be made nothing is said; ``why_not`` tells the reason to whoever asks.
"""

import contextlib
import functools
import os
import signal
import time
from typing import List, Optional

from trialkeeper import contract, machine
from trialkeeper.attempt_folder import read_text, write_file
from trialkeeper.group_limits import NO_LIMITS, Limits, limit_group

_MOUNTS = "/proc/self/mountinfo"
_NAME = "nniweb-trial-%s"
#: Age in seconds from which an empty group is a leftover.
_LEFT_AFTER = 60.0
#: Processes that are taken in by one step; each may cost 20 ms of waiting.
_AT_ONCE = 16
#: Folder of the group of all trials (``trials_group.py``); None: those of trials are made below the own one.
_folder_of_trials: Optional[str] = None
#: Looks for processes that are outside; more are needed only where a trial starts them faster than they are found.
_MOST_STEPS = 50


def control_group_of(pid: int) -> Optional[str]:
    """Path of a process's group in the hierarchy of version 2; None where there is no such hierarchy or process."""
    for line in (read_text("/proc/%d/cgroup" % pid) or "").splitlines():
        if line.startswith("0::"):
            return line[3:]
    return None


@functools.lru_cache(maxsize=None)
def own_folder() -> Optional[str]:
    """Folder of the group that this process was started in, below which groups are made; None: there is none.

    Read once: forked processes that know it already need not look.
    """
    path = control_group_of(os.getpid())
    for line in (read_text(_MOUNTS) or "").splitlines():
        mounted, _, what = line.partition(" - ")
        if path is not None and what.startswith("cgroup2 "):
            root, mount_point = [_unescaped(field) for field in mounted.split(" ")[3:5]]
            below = os.path.relpath(path, root)
            # a group outside of what this process sees, or of what is mounted here, cannot be used
            if ".." not in path.split("/") and not below.startswith(".."):
                return os.path.normpath(os.path.join(mount_point, below))
    return None


def use_folder(path: Optional[str]) -> None:
    """Make groups of trials in this group from now on, also in processes that are forked; None: in the own one."""
    global _folder_of_trials
    _folder_of_trials = path


def folder_of_trials() -> Optional[str]:
    """Folder of the group in which groups of trials are made; None: there is none."""
    return _folder_of_trials or own_folder()


def why_not() -> str:
    """Why trials cannot be held in groups by this process, as a sentence; "" where they can. Tries it. Forks: call it
    in a process with one thread.
    """
    folder = own_folder()
    if folder is None:
        return "This machine shows no control groups of version 2 (cgroup2)."
    group = ControlGroup(os.path.join(folder, _NAME % ("probe-%d" % os.getpid())))
    try:
        group.make()
        try:
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                os.read(reader, 1)  # until it has been taken in
                os._exit(0)
            os.close(reader)
            try:
                group.take_in(pid)
            finally:
                os.close(writer)
                os.waitpid(pid, 0)
        finally:
            group.remove()
    except OSError as error:
        return "No control group can be used below %s (%s)." % (folder, error.strerror)
    return ""


class ControlGroup:
    """One group. All methods may be called again and where the group is gone."""

    def __init__(self, path: str) -> None:
        self.path = path

    def make(self) -> None:
        """Raises OSError where that is not possible."""
        os.mkdir(self.path)

    def take_in(self, pid: int) -> None:
        """All threads of a process; what it starts from now on is in the group, too. Raises OSError."""
        self._write("cgroup.procs", pid)

    def members(self) -> List[int]:
        """The processes in the group and in groups that they made below it, without zombies."""
        found = []
        for folder in self._folders():
            found += [int(line) for line in (read_text(os.path.join(folder, "cgroup.procs")) or "").split()]
        return [pid for pid in found if pid > 0]

    def kill(self) -> None:
        """KILL to all at the same instant, so that none can fork away (Linux 5.14); before, one after the other."""
        try:
            self._write("cgroup.kill", 1)
        except OSError:
            for pid in self.members():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self, seconds: float = 1.0) -> bool:
        """Remove the empty group. Waits at most that long for what is just ending; False: something is in it still."""
        until = time.monotonic() + seconds
        while True:
            for folder in self._folders():
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            if not os.path.isdir(self.path):
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)

    def _write(self, name: str, number: int) -> None:
        descriptor = os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"%d" % number)
        finally:
            os.close(descriptor)

    def _folders(self) -> List[str]:
        return [folder for folder, _, _ in os.walk(self.path, topdown=False)]


def recorded_group(folder: str, journal_id: str) -> Optional[ControlGroup]:
    """The group of the attempt in this folder, from its record; it may be gone. None: it had none.

    Trials can write into their folder: only a group of this attempt's name is believed.
    """
    path = (read_text(os.path.join(folder, contract.GROUP_FILE)) or "").strip()
    return ControlGroup(path) if os.path.isabs(path) and os.path.basename(path) == _NAME % journal_id else None


def remove_leftovers() -> None:
    """Remove empty groups of trials whose attempts nobody will finish: their folders are gone.

    A young one may be waiting for its first process.
    """
    for folder in filter(None, {own_folder(), folder_of_trials()}):
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                group = ControlGroup(os.path.join(folder, name))
                if name.startswith(_NAME % "") and time.time() - os.stat(group.path).st_mtime > _LEFT_AFTER \
                        and not group.members():
                    group.remove(seconds=0)


class Gathering:
    """Takes a running trial's processes into a group of their own. For the keeper that started the trial."""

    def __init__(self, folder: str, journal_id: str, parent: Optional[int] = None, limits: Limits = NO_LIMITS) -> None:
        """``folder``: the attempt's. ``parent``: the process whose descendants they are; this one, if None."""
        self.limits = limits
        #: The kernel keeps the trial within its memory.
        self.limits_memory = False
        self._parent = os.getpid() if parent is None else parent
        self._folder, self._journal_id = folder, journal_id
        self._home = control_group_of(os.getpid())
        self._steps = 0
        #: Once it is made.
        self.group: Optional[ControlGroup] = None

    def step(self) -> bool:
        """Take in some of those who are not in it; True: all are, or nothing more can be done. Call it again."""
        if self.group is None and not self._begin():
            return True
        assert self.group is not None
        self._steps += 1
        # one that somebody put into another group was put there for a reason: a scope of systemd with limits
        outside = [pid for pid in machine.descendants_of(self._parent) if control_group_of(pid) == self._home]
        for pid in outside[:_AT_ONCE]:
            start_time = machine.process_start_time(pid)
            try:
                self.group.take_in(pid)
            except ProcessLookupError:
                continue  # it has just ended
            except OSError:
                return True
            if machine.process_start_time(pid) not in (None, start_time):  # the number went to somebody else meanwhile
                self._put_back(pid)
        return not outside or self._steps >= _MOST_STEPS

    def _begin(self) -> bool:
        folder = folder_of_trials()
        if folder is None or self._home is None:
            return False
        group = ControlGroup(os.path.join(folder, _NAME % self._journal_id))
        try:
            # before the group: one that nobody knows of would stay. Not flushed: a power cut ends the group, too
            write_file(os.path.join(self._folder, contract.GROUP_FILE), group.path)
            group.make()
        except OSError:
            return False
        self.limits_memory = limit_group(group.path, self.limits)
        self.group = group
        return True

    def _put_back(self, pid: int) -> None:
        own = own_folder()
        if own is not None:
            with contextlib.suppress(OSError):
                ControlGroup(own).take_in(pid)


def _unescaped(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
