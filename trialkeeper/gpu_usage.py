"""Readings of the machine's GPUs, from ``nvidia-smi``: asked in CSV, which is several times quicker than its XML."""

import subprocess
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from trialkeeper.starting_threads import start_thread
from trialkeeper.whole_number import whole_number

#: Seconds until a hanging nvidia-smi is ended.
TIMEOUT = 20.0
_GPU_FIELDS = "index,uuid,name,utilization.gpu,memory.used,memory.total"
_MIB = 1024 * 1024


class NoGpuReading(Exception):
    """The GPUs cannot be read. ``str(error)`` says why, for a person."""


def read_gpus(count_processes: bool = True) -> List[Dict[str, Any]]:
    """One dict for each GPU: index, name, utilization (percent), memory_used and memory_total (bytes), processes.

    A field that the driver does not tell is None; ``processes`` is the number of compute processes that it
    sees, which is a question of its own (else 0). Raises NoGpuReading. Blocks for as long as nvidia-smi takes.
    """
    gpus: Dict[str, Dict[str, Any]] = {}
    for line in _ask("--query-gpu=" + _GPU_FIELDS).splitlines():
        fields = [field.strip() for field in line.split(",")]
        index = whole_number(fields[0])
        if len(fields) < 6 or index is None:
            continue
        # a name could hold a comma: count from both ends
        uuid, name = fields[1], ", ".join(fields[2:-3])
        utilization, used, total = (_number(field) for field in fields[-3:])
        gpus[uuid] = {"index": index, "name": name, "utilization": utilization,
                      "memory_used": None if used is None else used * _MIB,
                      "memory_total": None if total is None else total * _MIB, "processes": 0}
    if gpus and count_processes:
        for line in _ask("--query-compute-apps=gpu_uuid,pid").splitlines():
            uuid = line.split(",")[0].strip()
            if uuid in gpus:
                gpus[uuid]["processes"] += 1
    return sorted(gpus.values(), key=lambda gpu: int(gpu["index"]))


def _ask(query: str) -> str:
    try:
        done = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)
    except FileNotFoundError:
        raise NoGpuReading("there is no nvidia-smi on the PATH of this machine") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoGpuReading("nvidia-smi could not be run: %s" % error) from error
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        why = (done.stderr.decode("utf-8", "replace") or text).strip()
        raise NoGpuReading("nvidia-smi failed with exit code %d: %s" % (done.returncode, why[:500]))
    return text


def _number(field: str) -> Optional[int]:
    try:
        return int(float(field))
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None


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
