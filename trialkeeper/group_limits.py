"""Limits that the kernel keeps for a control group (version 2) whose controllers are enabled."""

import contextlib
import os
from typing import NamedTuple, Optional

from trialkeeper import contract
from trialkeeper.attempt_folder import read_text
from trialkeeper.whole_number import whole_number

#: Microseconds within which a group gets its share of the processors.
_PERIOD = 100_000
_LEAST_QUOTA = 1_000  # less is refused by the kernel


class Limits(NamedTuple):
    """What a trial may have: processors, and bytes of main memory. None: no limit of its own."""

    cpu_number: Optional[float] = None
    memory_bytes: Optional[int] = None

    @property
    def are_any(self) -> bool:
        return self.cpu_number is not None or self.memory_bytes is not None


NO_LIMITS = Limits()


def limits_of(document: contract.LimitsDocument) -> Limits:
    """Those of a job."""
    return Limits(document.get("cpu_number"), document.get("memory_bytes"))


def limit_group(path: str, limits: Limits) -> bool:
    """Limit a group that is empty still. True: the kernel keeps what is taken into it within ``memory_bytes``.

    If memory runs out in it or in a group above, all of it is killed and not one process of it: a trial that goes on
    without one of its processes mostly hangs.
    """
    write_value(path, "memory.oom.group", "1")
    if limits.cpu_number is not None:
        quota = max(_LEAST_QUOTA, int(limits.cpu_number * _PERIOD))
        write_value(path, "cpu.max", "%d %d" % (quota, _PERIOD))
    if limits.memory_bytes is None:
        return False
    # else it would go on in the swap space, and slow down the whole machine
    write_value(path, "memory.swap.max", "0")
    return write_value(path, "memory.max", str(limits.memory_bytes))


def write_value(path: str, name: str, value: str) -> bool:
    """Write a file of a group. False where the group has no such file, or it cannot be written."""
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.join(path, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode("ascii"))
            return True
        finally:
            os.close(descriptor)
    return False


def killed_in(path: str) -> int:
    """How many processes of a group the kernel has killed for lack of memory; 0 where it does not count."""
    return count_of_kills(os.path.join(path, "memory.events")) or 0


def count_of_kills(file: str) -> Optional[int]:
    """By a group's ``memory.events`` or /proc/vmstat; None where that is not told."""
    for line in (read_text(file) or "").splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return whole_number(count.strip())
    return None
