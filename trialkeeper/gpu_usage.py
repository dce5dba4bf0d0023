"""Readings of the machine's GPUs, by the program of their driver."""

import shutil
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from trialkeeper import amd_smi, mig_instances, nvidia_smi
from trialkeeper.smi_program import TIMEOUT, NoGpuReading
from trialkeeper.starting_threads import start_thread
from trialkeeper.whole_number import whole_number

#: In this order; the first one that is on the PATH is asked.
_READERS = {nvidia_smi.PROGRAM: nvidia_smi.read_nvidia_gpus, amd_smi.AMD_SMI: amd_smi.read_by_amd_smi,
            amd_smi.ROCM_SMI: amd_smi.read_by_rocm_smi}


def gpu_program() -> Optional[str]:
    """Path of the program that is asked about GPUs; None where this machine has none."""
    return next(filter(None, map(shutil.which, _READERS)), None)


def read_gpus(count_processes: bool = True) -> List[Dict[str, Any]]:
    """One dict for each GPU: index, name, utilization (percent), memory_used and memory_total (bytes), processes.

    A field that the driver does not tell is None; ``processes`` is the number of compute processes that it
    sees, which is a question of its own (else 0). Where they are: ``fault``, one of contract.GPU_FAULTS;
    ``memory_errors``, the number of uncorrected errors since the driver was loaded; ``memory_of``, the bytes of each
    process on it by process id; ``exclusive`` true, where the driver lets one process on it. Where a GPU is cut into
    instances there is one dict for each of them in its place: see ``mig_instances``.

    Raises NoGpuReading. Blocks for as long as the program takes, TIMEOUT seconds at most.
    """
    until = time.monotonic() + TIMEOUT
    program = next((name for name in _READERS if shutil.which(name) is not None), None)
    if program is None:
        raise NoGpuReading("there is no %s on the PATH of this machine, nor %s"
                           % (nvidia_smi.PROGRAM, " or ".join(list(_READERS)[1:])))
    return _READERS[program](until, count_processes)


def gpus_of_slurm(environment: Mapping[str, str]) -> List[int]:
    """Those that Slurm has given the job that this process runs in, as its driver numbers them: where the job may see
    no others, they are numbered anew for both. None of a job without GPUs, or elsewhere.
    """
    if not environment.get("SLURM_JOB_ID"):
        return []
    found = [whole_number(name.strip()) for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return [index for index in found if index is not None]


def names_for_cuda(indices: Sequence[int]) -> List[str]:
    """What CUDA_VISIBLE_DEVICES is for these GPUs, in their order. Asks the driver where one of them is an instance.
    Raises NoGpuReading.
    """
    if not any(map(mig_instances.is_instance, indices)):
        return list(map(str, indices))
    names = mig_instances.names_of(nvidia_smi.PROGRAM, indices, time.monotonic() + TIMEOUT)
    return [names[index] for index in indices]


#: Seconds between the first readings, of which a short trial has only these.
_FIRST_PAUSES = (1.0, 2.0, 4.0)


class GpuWatch:
    """Reads some GPUs again and again on a thread, so that who reports never waits for the driver."""

    def __init__(self, indices: Sequence[int], interval: float,
                 start: Callable[[str, Callable[[], None]], None] = start_thread,
                 members: Callable[[], Sequence[int]] = tuple) -> None:
        """``start(name, work)`` starts the thread, now or later. ``members``: the trial's processes; on that thread."""
        self._indices = set(indices)
        self._interval = max(interval, 5.0)
        self._members = members
        self._closed = threading.Event()
        self._last: List[Dict[str, Any]] = []
        #: The most bytes that the trial was seen to have on one of its GPUs; None while that is not known.
        self.peak: Optional[int] = None
        start("gpus", self._run)

    def last(self) -> List[Dict[str, Any]]:
        """The newest reading as reports have it; [] while there is none."""
        return self._last

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        pauses = iter(_FIRST_PAUSES)
        while not self._closed.is_set():
            try:
                gpus = [gpu for gpu in read_gpus() if gpu["index"] in self._indices]
                members = set(self._members())
                self._last = [self._reported(gpu, members) for gpu in gpus]
            except NoGpuReading:
                self._last = []
            self._closed.wait(next(pauses, self._interval))

    def _reported(self, gpu: Dict[str, Any], members: Set[int]) -> Dict[str, Any]:
        reading = {"index": gpu["index"], "utilization": gpu["utilization"], "memory_bytes": gpu["memory_used"],
                   "memory_total": gpu["memory_total"]}
        own = [used for pid, used in gpu.get("memory_of", {}).items() if pid in members]
        if own:  # else it has none yet, or the driver names processes by numbers of another container
            reading["own_bytes"] = sum(own)
            self.peak = max(self.peak or 0, sum(own))
        return reading
