"""Watches the main memory of a trial where the kernel keeps no limit for it (Linux)."""

import os
from typing import Callable, Iterable, Optional

from trialkeeper import machine
from trialkeeper.attempt_folder import read_text
from trialkeeper.process_tree import ProcessTree
from trialkeeper.whole_number import whole_number

#: Seconds between two looks.
LOOK_EVERY = 0.5


class MemoryWatch:
    """For one thread at a time."""

    def __init__(self, tree: ProcessTree, most: int, clock: Callable[[], float]) -> None:
        """``most``: bytes. ``clock``: monotonic seconds."""
        self._tree, self._most, self._clock = tree, most, clock
        self._next = clock()
        #: Bytes that the trial had when it was found to have more than it may; None before.
        self.taken: Optional[int] = None

    def is_over(self) -> bool:
        """Whether the trial has more than it may. Looks every LOOK_EVERY seconds."""
        return self.is_over_now() if self._clock() >= self._next else self.taken is not None

    def is_over_now(self) -> bool:
        """The same; looks in any case."""
        if self.taken is None:
            self._next = self._clock() + LOOK_EVERY
            taken = self._bytes()
            if taken > self._most:
                self.taken = taken
        return self.taken is not None

    def _bytes(self) -> int:
        """What its processes have. Pages that they share count once, but that is looked at only where it matters."""
        pids = self._tree.members_for_readings()
        taken = _resident(pids)
        return _proportional(pids) if taken > self._most else taken


def _resident(pids: Iterable[int]) -> int:
    page, found = os.sysconf("SC_PAGE_SIZE"), 0
    for pid in pids:
        stat = machine.process_stat(pid)
        if stat is not None:
            found += int(stat[1][21]) * page
    return found


def _proportional(pids: Iterable[int]) -> int:
    found = 0
    for pid in pids:
        lines = (read_text("/proc/%d/smaps_rollup" % pid) or "").splitlines()
        kilobytes = [whole_number(line.split()[1]) for line in lines if line.startswith("Pss:")]
        # a kernel before 4.14, or a process that has just ended
        found += (kilobytes[0] or 0) * 1024 if kilobytes else _resident([pid])
    return found
