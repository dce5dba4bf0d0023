"""What of this machine programs can use, and what of it is left to trials."""

import math
import os
from typing import List, Optional

from trialkeeper import machine
from trialkeeper.attempt_folder import read_text
from trialkeeper.whole_number import whole_number

#: Of the memory so much is kept from trials, for the system, the agent and keepers: a share, at least, at most a share.
_KEPT, _LEAST_KEPT, _MOST_KEPT = 0.05, 1024 ** 3, 0.25


def usable_memory(group: Optional[str]) -> Optional[int]:
    """Bytes of memory that this machine has, or that the control group lets programs have, or one above it; None where
    that is not known. ``group``: the folder of the group that this process is in, None: there is none.
    """
    limits = [whole_number((read_text(os.path.join(folder, "memory.max")) or "").strip()) for folder in _up_from(group)]
    known = [number for number in (machine.memory_total(), *limits) if number is not None]
    return min(known) if known else None


def usable_cpus(group: Optional[str]) -> float:
    """The same of processors."""
    try:
        most = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        most = float(os.cpu_count() or 1)
    for folder in _up_from(group):
        quota, _, period = (read_text(os.path.join(folder, "cpu.max")) or "").strip().partition(" ")
        micros, each = whole_number(quota), whole_number(period)
        if micros and each:
            most = min(most, micros / each)
    return most


def memory_for_trials(usable: int) -> int:
    """Bytes that all trials may have together, where nobody says how many."""
    kept = min(max(usable * _KEPT, _LEAST_KEPT), usable * _MOST_KEPT)
    return int(usable - math.ceil(kept))


def _up_from(group: Optional[str]) -> List[str]:
    """The group and those above it, as far as they can be seen."""
    found = []
    while group and os.path.exists(os.path.join(group, "cgroup.controllers")):
        found.append(group)
        group = os.path.dirname(group)
    return found
