"""Whether a trial that failed ran out of memory, and of which: by what it wrote last, or by what the kernel counted.

Frameworks say it in their own words: ``_GPU`` and ``_MAIN`` have them. The kernel says nothing to the process that it
kills for lack of memory. It counts such kills, for each control group and for the machine.
"""

import os
import re
import signal
from typing import Any, Dict, Iterable, List, Optional, Tuple

from trialkeeper import contract
from trialkeeper.control_group import own_folder
from trialkeeper.folder_reader import open_plain
from trialkeeper.group_limits import count_of_kills, killed_in

#: Bytes at the end of stdout and of stderr that are looked at, and most characters of a line that is told.
_READ, LONGEST_LINE = 64 * 1024, 300

#: PyTorch (CUDA, ROCm, Intel, Apple), CUDA's own names, its libraries, TensorFlow, XLA (JAX), CuPy, Paddle, OpenCL.
_GPU = re.compile(
    r"(?:CUDA|HIP|XPU) out of memory|MPS backend out of memory|(?:CUDA|HIP) error: out of memory"
    r"|(?i:cuda) failure (?:\d+ )?'out of memory'|cudaMalloc\w*\b.{0,80}out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
    r"|CU(?:BLAS|DNN|SOLVER|SPARSE|RAND)_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED"
    r"|OOM when allocating tensor.{0,400}(?:device:GPU|allocator GPU)"
    r"|cupy\.\S*OutOfMemoryError|Out of memory error on GPU|CL_MEM_OBJECT_ALLOCATION_FAILURE")
#: XLA has the same words for the memory of a GPU and that of the machine.
_XLA = re.compile(r"RESOURCE_EXHAUSTED: .{0,80}(?i:out of memory)")
#: Python, NumPy, C++, PyTorch, TensorFlow, the C library, Java, R, Slurm.
_MAIN = re.compile(
    r"^(?:[\w.]*\.)?(?:_Array)?MemoryError(?::|\s*$)|std::bad_alloc|DefaultCPUAllocator: (?:can't allocate|not enough)"
    r"|OOM when allocating tensor|\[Errno 12\] Cannot allocate memory|java\.lang\.OutOfMemoryError"
    r"|[Cc]annot allocate vector of size|oom[-_ ]kill event|Exceeded job memory limit")
#: What a parent says of a child that was killed.
_KILLED = re.compile(r"killed by signal: Killed|\bdied with <Signals\.SIGKILL|exitcode\s*: -9\b|^Killed\Z")
_TRACEBACK = "Traceback (most recent call last):"
#: Before a traceback that belongs to the one before it.
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
#: At the end of a traceback of who started the process that failed.
_OF_PARENT = re.compile(r"ChildFailedError|CalledProcessError|Process(?:Raised|Exited)Exception|RayTaskError")


def found_in(text: str, has_gpus: Optional[bool] = None) -> Optional[Tuple[str, str]]:
    """Which memory ran out by the last lines that a failed trial wrote, and the line that says so; None: by them none.

    A trial may go on after it has run out of memory, with a smaller batch for example: an error that comes later and is
    no consequence of it counts instead. ``has_gpus`` False: the trial was given none.
    """
    lines = text.splitlines()
    for number in range(len(lines) - 1, -1, -1):
        memory = _memory_named_in(lines[number], has_gpus)
        if memory is not None:
            return None if _another_error_in(lines[number + 1:]) else (memory, lines[number].strip()[:LONGEST_LINE])
    return None


def _memory_named_in(line: str, has_gpus: Optional[bool]) -> Optional[str]:
    if _GPU.search(line):
        return contract.GPU_MEMORY
    if _XLA.search(line):
        return contract.MAIN_MEMORY if has_gpus is False else contract.GPU_MEMORY
    return contract.MAIN_MEMORY if _MAIN.search(line) else None


def _another_error_in(lines: List[str]) -> bool:
    """Whether these lines, behind one that tells of memory, have a traceback with a cause of its own."""
    before = ""
    for number, line in enumerate(lines):
        if _TRACEBACK in line and not before.strip().startswith(_CHAINED) \
                and not any(_OF_PARENT.search(later) for later in lines[number + 1:]):
            return True
        if line.strip():
            before = line
    return False


class KernelKills:
    """Processes that the kernel killed for lack of memory: in the trial's own group, in the group that this process is
    in, or where that does not count, on this machine. Make it before the trial starts.
    """

    def __init__(self, of_machine: bool = False) -> None:
        """``of_machine``: the trial's processes are in none of our groups."""
        #: Folder of the trial's own group, once there is one.
        self.group: Optional[str] = None
        self._path = "/proc/vmstat" if of_machine else _counting_file()
        self._before = self._count()

    def has_killed(self) -> bool:
        """Whether it has killed one since."""
        if self.group is not None and killed_in(self.group):
            return True
        now = self._count()
        return now is not None and self._before is not None and now > self._before

    def _count(self) -> Optional[int]:
        return count_of_kills(self._path)


def _counting_file() -> str:
    """The group's ``memory.events`` counts for the groups below it, too, in which trials are."""
    group = own_folder()
    path = os.path.join(group, "memory.events") if group is not None else ""
    return path if path and os.path.exists(path) else "/proc/vmstat"


def out_of_memory(folder: str, exit_code: Optional[int], signal_number: Optional[int], kills: KernelKills,
                  gpu_indices: Optional[Iterable[int]], gpus: List[Dict[str, Any]], limit: Optional[int] = None
                  ) -> Optional[contract.OutOfMemoryDocument]:
    """What to tell of a trial that ended by itself; None where it did not run out of memory.

    ``gpus``: the last reading of its GPUs, as ``gpu_usage.GpuWatch`` has it. ``limit``: bytes that it might have.
    """
    if exit_code == 0:
        return None
    has_gpus = None if gpu_indices is None else bool(list(gpu_indices))
    texts = [_end_of(os.path.join(folder, name)) for name in (contract.STDERR_FILE, contract.STDOUT_FILE)]
    found = next(filter(None, (found_in(text, has_gpus) for text in texts)), None)
    if found is not None:
        memory, line = found
        totals = [gpu["memory_total"] for gpu in gpus if gpu.get("memory_total")]
        return {"memory": memory, "line": line, "by": contract.BY_TEXT,
                "gpu_total": min(totals) if totals and memory == contract.GPU_MEMORY else None}
    killed = signal_number == signal.SIGKILL or exit_code == 128 + signal.SIGKILL
    line = "" if killed else next((line for text in texts for line in reversed(text.splitlines())
                                   if _KILLED.search(line)), "")
    if (killed or line) and kills.has_killed():
        told: contract.OutOfMemoryDocument = {
            "memory": contract.MAIN_MEMORY, "line": line.strip()[:LONGEST_LINE], "by": contract.BY_KERNEL,
            "gpu_total": None}
        if limit is not None and kills.group is not None and killed_in(kills.group):
            told["limit"] = limit
        return told
    return None


def over_its_limit(limit: int, taken: int) -> contract.OutOfMemoryDocument:
    """What to tell of a trial that was ended because it had ``taken`` bytes of main memory and not ``limit``."""
    return {"memory": contract.MAIN_MEMORY, "line": "", "by": contract.BY_LIMIT, "gpu_total": None, "limit": limit,
            "taken": taken}


def _end_of(path: str) -> str:
    try:
        with open_plain(path) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _READ))
            return stream.read(_READ).decode("utf-8", "replace")
    except OSError:
        return ""
