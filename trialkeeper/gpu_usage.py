"""Readings of the machine's GPUs, by the program of their driver."""

import shutil
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from trialkeeper import amd_smi, nvidia_smi
from trialkeeper.smi_program import TIMEOUT, NoGpuReading
from trialkeeper.starting_threads import start_thread

#: In this order; the first one that is on the PATH is asked.
_READERS = {nvidia_smi.PROGRAM: nvidia_smi.read_nvidia_gpus, amd_smi.AMD_SMI: amd_smi.read_by_amd_smi,
            amd_smi.ROCM_SMI: amd_smi.read_by_rocm_smi}


def gpu_program() -> Optional[str]:
    """Path of the program that is asked about GPUs; None where this machine has none."""
    return next(filter(None, map(shutil.which, _READERS)), None)


def read_gpus(count_processes: bool = True) -> List[Dict[str, Any]]:
    """One dict for each GPU: index, name, utilization (percent), memory_used and memory_total (bytes), processes.

    A field that the driver does not tell is None; ``processes`` is the number of compute processes that it
    sees, which is a question of its own (else 0). Where they are, ``fault`` is one of contract.GPU_FAULTS, and
    ``memory_errors`` the number of uncorrected errors since the driver was loaded. Raises NoGpuReading. Blocks for as
    long as the program takes, TIMEOUT seconds at most.
    """
    until = time.monotonic() + TIMEOUT
    program = next((name for name in _READERS if shutil.which(name) is not None), None)
    if program is None:
        raise NoGpuReading("there is no %s on the PATH of this machine, nor %s"
                           % (nvidia_smi.PROGRAM, " or ".join(list(_READERS)[1:])))
    return _READERS[program](until, count_processes)


class GpuWatch:
    """Reads some GPUs again and again on a thread, so that who reports never waits for nvidia-smi."""

    def __init__(self, indices: Sequence[int], interval: float,
                 start: Callable[[str, Callable[[], None]], None] = start_thread) -> None:
        """``start(name, work)`` starts the thread, now or later."""
        self._indices = set(indices)
        self._interval = max(interval, 5.0)
        self._closed = threading.Event()
        self._last: List[Dict[str, Any]] = []
        start("gpus", self._run)

    def last(self) -> List[Dict[str, Any]]:
        """The newest reading as reports have it; [] while there is none."""
        return self._last

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._last = [{"index": gpu["index"], "utilization": gpu["utilization"],
                               "memory_bytes": gpu["memory_used"], "memory_total": gpu["memory_total"]}
                              for gpu in read_gpus(count_processes=False) if gpu["index"] in self._indices]
            except NoGpuReading:
                self._last = []
            self._closed.wait(self._interval)
