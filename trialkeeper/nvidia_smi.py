"""Readings of NVIDIA's GPUs, from ``nvidia-smi``: asked in CSV, which is several times quicker than its XML.

Answers may lack a GPU that has fallen off the bus, say so in a field, or end at it with an exit code. Drivers differ in
the fields that they know.
"""

import os
import re
from typing import Any, Dict, List, Optional

from trialkeeper import contract, machine
from trialkeeper.mig_instances import are_instances, with_instances
from trialkeeper.smi_program import NoGpuReading, ask
from trialkeeper.whole_number import whole_number

PROGRAM = "nvidia-smi"
_MIB = 1024 * 1024
#: Always known. A name could hold a comma: it stands last.
_FIELDS = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total")
#: Left out where the driver does not know them.
_FURTHER = ("ecc.errors.uncorrected.volatile.total", "retired_pages.pending", "compute_mode")
_NAME = "name"
_UNKNOWN_FIELD = re.compile(r'Field "([\w.]+)" is not a valid field')
_NO_HANDLE = re.compile(r"Unable to determine the device handle for (?:GPU|gpu) ?(\d+(?=:? ))?:? ?([0-9A-Fa-f:.]+): ")
#: What stands in a field in place of a value, and what it means for the GPU.
_FAULTS = (("is lost", contract.GPU_LOST), ("requires reset", contract.GPU_NEEDS_RESET),
           ("Unknown Error", contract.GPU_LOST), ("ERR!", contract.GPU_LOST))
#: Name of the server of MPS, of which the kernel keeps fifteen letters.
_MPS_SERVER = b"nvidia-cuda-mps"
_NOT_UNDERSTOOD = "%s printed a line that is not understood: %s"
#: Where the driver lists its GPUs by their address on the bus, also those that do not answer.
_DRIVER_FOLDER = "/proc/driver/nvidia/gpus"


def read_nvidia_gpus(until: float, count_processes: bool = True) -> List[Dict[str, Any]]:
    """As ``gpu_usage.read_gpus``."""
    gpus = _listed(until)
    if gpus and count_processes:
        _count_processes(gpus, until)
    # the driver tells no utilization of a GPU that is cut into instances
    if are_instances() or any(gpu["utilization"] is None and "fault" not in gpu for gpu in gpus.values()):
        gpus = with_instances(PROGRAM, gpus, until)
    return sorted(gpus.values(), key=lambda gpu: int(gpu["index"]))


def _listed(until: float) -> Dict[str, Dict[str, Any]]:
    further = list(_FURTHER)
    while True:
        fields = [*_FIELDS, *further, _NAME]
        query = ["--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
        answer = ask([PROGRAM, *query], until)
        unknown = _UNKNOWN_FIELD.search(answer.text + answer.why)
        if unknown is None or unknown.group(1) not in further:
            break
        further.remove(unknown.group(1))
    gpus = _parsed(answer.text, fields)
    lost = list(_NO_HANDLE.finditer(answer.text + answer.why))
    if answer.exit_code and not lost:
        raise NoGpuReading("%s failed with exit code %d: %s" % (PROGRAM, answer.exit_code, answer.why))
    if lost and len(gpus) + 1 < len(_buses()):
        # it ends at the first GPU that it cannot open: the others are asked one by one
        for bus in _buses():
            one = ask([PROGRAM, "--id=" + bus, *query], until)
            gpus.update(_parsed(one.text, fields))
            lost += _NO_HANDLE.finditer(one.text + one.why)
    _add_lost(gpus, lost)
    if not gpus and answer.text.strip():
        raise NoGpuReading(_NOT_UNDERSTOOD % (PROGRAM, answer.text.strip()[:200]))
    return gpus


def _parsed(text: str, fields: List[str]) -> Dict[str, Dict[str, Any]]:
    """By UUID. Raises NoGpuReading for lines of a form that is not known: a GPU that is not seen is not missing."""
    gpus: Dict[str, Dict[str, Any]] = {}
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        index = whole_number(values[0])
        if index is None:
            if values[0].lower() == _FIELDS[0]:
                continue  # a header, though none was asked for
            if len(values) >= len(fields):
                raise NoGpuReading(_NOT_UNDERSTOOD % (PROGRAM, line[:200]))
            continue  # a warning, about the information ROM for example
        if len(values) < len(fields):
            raise NoGpuReading(_NOT_UNDERSTOOD % (PROGRAM, line[:200]))
        known = dict(zip(fields, values))
        used, total, errors = (_number(known.get(name, "")) for name in ("memory.used", "memory.total", _FURTHER[0]))
        gpu = {"index": index, "name": ", ".join(values[len(fields) - 1:]),
               "utilization": _number(known["utilization.gpu"]), "memory_used": None if used is None else used * _MIB,
               "memory_total": None if total is None else total * _MIB, "processes": 0}
        fault = _fault_in(values)
        if fault is None and known.get(_FURTHER[1]) == "Yes":
            fault = contract.GPU_NEEDS_RESET
        if fault is not None:
            gpu["fault"] = fault
        if errors:
            gpu["memory_errors"] = errors
        if known.get(_FURTHER[2], "").startswith("Exclusive"):
            gpu["exclusive"] = True
        gpus[known["uuid"] if known["uuid"].startswith(("GPU-", "MIG-")) else "index %d" % index] = gpu
    return gpus


def _fault_in(values: List[str]) -> Optional[str]:
    return next((fault for words, fault in _FAULTS for value in values if words in value), None)


def _add_lost(gpus: Dict[str, Dict[str, Any]], lost: List["re.Match[str]"]) -> None:
    """GPUs that the answer names and cannot open. Where it does not say their numbers, the free ones are theirs."""
    taken = {int(gpu["index"]) for gpu in gpus.values()}
    for match in {match.group(2).lower(): match for match in lost}.values():
        number = whole_number(match.group(1) or "")
        if number is None or number in taken:
            number = next(free for free in range(len(taken) + 1) if free not in taken)
        taken.add(number)
        gpus[match.group(2)] = {"index": number, "name": "GPU at %s" % match.group(2), "utilization": None,
                                "memory_used": None, "memory_total": None, "processes": 0, "fault": contract.GPU_LOST}


def _buses() -> List[str]:
    try:
        return sorted(os.listdir(_DRIVER_FOLDER))
    except OSError:
        return []


def _count_processes(gpus: Dict[str, Dict[str, Any]], until: float) -> None:
    answer = ask([PROGRAM, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"], until)
    if answer.exit_code and not any("fault" in gpu for gpu in gpus.values()):
        raise NoGpuReading("%s failed with exit code %d: %s" % (PROGRAM, answer.exit_code, answer.why))
    for line in answer.text.splitlines():
        uuid, _, rest = line.partition(",")
        pid, _, used = rest.partition(",")
        gpu, number, mib = gpus.get(uuid.strip()), whole_number(pid.strip()), _number(used.strip())
        if gpu is not None and not _is_mps_server(number):
            gpu["processes"] += 1
            if number is not None and mib is not None:
                gpu.setdefault("memory_of", {})[number] = mib * _MIB


def _is_mps_server(pid: Optional[int]) -> bool:
    """Whether it is the process of MPS through which others use the GPU: it uses none itself."""
    stat = None if pid is None else machine.process_stat(pid)
    return stat is not None and stat[0].startswith(_MPS_SERVER)


def _number(field: str) -> Optional[int]:
    try:
        return int(float(field))
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None
