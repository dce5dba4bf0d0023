"""What a trial uses of its machine: processor time and memory of its whole tree (Linux), readings of its GPUs."""

import os
from typing import Any, Callable, Dict, Optional

from trialkeeper import machine
from trialkeeper.gpu_usage import GpuWatch
from trialkeeper.process_tree import ProcessTree


class TrialResources:
    """Readings for the reports. For one thread at a time."""

    def __init__(self, tree: ProcessTree, gpus: Optional[GpuWatch], clock: Callable[[], float]) -> None:
        """``clock``: monotonic seconds."""
        self._tree, self._gpus, self._clock = tree, gpus, clock
        self._last_at = clock()
        self._last_seconds = 0.0

    def read(self) -> Dict[str, Any]:
        """``cpu_percent`` since the last reading (100 = one processor), ``memory_bytes``, ``gpus``."""
        reading: Dict[str, Any] = {}
        if os.path.isdir("/proc/self"):
            ticks = os.sysconf("SC_CLK_TCK")
            times = os.times()
            seconds = times.children_user + times.children_system  # of those that have ended
            memory = 0
            for pid in self._tree.members_for_readings():
                stat = machine.process_stat(pid)
                if stat is not None:
                    seconds += sum(int(field) for field in stat[1][11:15]) / ticks
                    memory += int(stat[1][21]) * os.sysconf("SC_PAGE_SIZE")
            now = self._clock()
            if now > self._last_at:
                reading["cpu_percent"] = round(max(0.0, seconds - self._last_seconds) / (now - self._last_at) * 100, 1)
            reading["memory_bytes"] = memory
            self._last_at, self._last_seconds = now, seconds
        gpus = self._gpus.last() if self._gpus is not None else []
        if gpus:
            reading["gpus"] = gpus
        return reading
