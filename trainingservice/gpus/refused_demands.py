"""What was refused a moment ago need not be looked for again: of a thousand trials that wait, most ask for as much."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from trainingservice.machine_shares.shares import NOTHING, MachineShare
from trainingservice.reasons import Reason
from trainingservice.trial_job import GpuDemand

#: Seconds for which a refusal holds. Less than the time after which a job that waits is tried again.
HOLDS = 1.0


class _Kind(NamedTuple):
    """Demands of one kind can be compared: where there is no room for some memory there is none for more."""

    gpus: int
    alone: bool
    memory_above: int
    by_memory: bool
    share: MachineShare


class RefusedDemands:
    """Any method may be called from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: Kind -> until when (monotonic), the smallest memory that was refused, why.
        self._refused: dict[_Kind, tuple[float, int, Reason]] = {}

    def why(self, gpus: int, demand: GpuDemand, share: MachineShare = NOTHING) -> Reason | None:
        """Why there is no room for such a job, by what was refused before; None where that is not known."""
        with self._lock:
            known = self._refused.get(_kind(gpus, demand, share))
        if known is None or known[0] < self._monotonic() or demand.memory < known[1]:
            return None
        reason = known[2]
        return Reason(reason.code, **{**reason.arguments, "memory": demand.memory}) if "memory" in reason.arguments \
            else reason

    def note(self, gpus: int, demand: GpuDemand, reason: Reason, share: MachineShare = NOTHING) -> None:
        """Such a job was refused now."""
        with self._lock:
            self._refused[_kind(gpus, demand, share)] = self._monotonic() + HOLDS, demand.memory, reason

    def forget(self) -> None:
        """There may be room now."""
        with self._lock:
            self._refused.clear()


def _kind(gpus: int, demand: GpuDemand, share: MachineShare) -> _Kind:
    return _Kind(gpus, demand.alone, demand.memory_above, demand.memory > 0, share)
