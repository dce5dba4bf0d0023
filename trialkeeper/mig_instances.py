"""Instances of NVIDIA's GPUs that are cut into several (MIG): each of them is a GPU of its own.

``nvidia-smi -L`` names them with the ids by which CUDA is given one; ``nvidia-smi -q -x`` tells their memory, and which
process is in which. An instance has the number 1GGIIC in place of an index: its GPU, its GPU instance and its compute
instance, so that it keeps it when others are made or removed: 100070 is GPU 0, GPU instance 7, compute instance 0.
"""

import glob
import re
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence

from trialkeeper.smi_program import NoGpuReading, ask
from trialkeeper.whole_number import whole_number

if TYPE_CHECKING:
    from xml.etree import ElementTree

_MIB = 1024 * 1024
_FIRST = 100_000
#: Where the driver lists instances; their access is given by these files.
_CAPABILITIES = "/proc/driver/nvidia/capabilities/gpu*/mig/gi*"
_GPU = re.compile(r"GPU (\d+): (.*?) \(UUID: (GPU-[0-9A-Fa-f-]+)\)")
#: ``MIG 3g.20gb     Device  0: (UUID: MIG-...)``; with older drivers ``MIG-GPU-.../1/0``.
_INSTANCE = re.compile(r"\s+(MIG \S+)\s+Device\s+(\d+): \(UUID: (MIG-[0-9A-Za-z/-]+)\)")


class _Listed(NamedTuple):
    gpu: int
    gpu_uuid: str
    device: int
    profile: str
    uuid: str


def instance_number(gpu: int, gpu_instance: int, compute_instance: int) -> int:
    """In place of the index of a GPU."""
    return _FIRST + gpu * 1000 + gpu_instance * 10 + compute_instance


def is_instance(index: int) -> bool:
    """Whether an index of a GPU is the number of an instance."""
    return index >= _FIRST


def are_instances() -> bool:
    """Whether the driver lists any. Where it does not there may still be some: in a container."""
    return bool(glob.glob(_CAPABILITIES))


def with_instances(program: str, gpus: Dict[str, Dict[str, Any]], until: float) -> Dict[str, Dict[str, Any]]:
    """Readings by UUID, where instances stand in place of the GPUs that are cut. An instance has the further fields
    ``parent``, the index of its GPU, and ``memory_of``. Raises NoGpuReading: a GPU that is cut must not be used whole.
    """
    listed = _listed(program, until)
    if not listed:
        return gpus
    told = _told(program, until)
    cut = {one.gpu_uuid for one in listed}
    found = {uuid: gpu for uuid, gpu in gpus.items() if uuid not in cut}
    for one in listed:
        gpu, instance = gpus.get(one.gpu_uuid), told.get((one.gpu_uuid, one.device))
        if gpu is None or gpu.get("fault") or instance is None:
            raise NoGpuReading("%s tells of the instance %s and not how much memory it has" % (program, one.uuid))
        found[one.uuid] = {**instance, "name": "%s %s" % (gpu["name"], one.profile), "utilization": None,
                           "parent": one.gpu,
                           **{name: gpu[name] for name in ("memory_errors",) if name in gpu},
                           "index": instance_number(one.gpu, *instance["index"])}
    return found


def names_of(program: str, indices: Sequence[int], until: float) -> Dict[int, str]:
    """How CUDA is given these GPUs: instances by their ids, others by their index. Raises NoGpuReading where one is not
    there.
    """
    names = {index: str(index) for index in indices}
    if any(map(is_instance, indices)):
        told = _told(program, until)
        known = {instance_number(one.gpu, *told[one.gpu_uuid, one.device]["index"]): one.uuid
                 for one in _listed(program, until) if (one.gpu_uuid, one.device) in told}
        for index in filter(is_instance, indices):
            if index not in known:
                raise NoGpuReading("the instance with the number %d is not there any more" % index)
            names[index] = known[index]
    return names


def _listed(program: str, until: float) -> List[_Listed]:
    answer = ask([program, "-L"], until)
    found: List[_Listed] = []
    gpu: Optional["re.Match[str]"] = None
    for line in answer.text.splitlines() if not answer.exit_code else ():
        gpu = _GPU.match(line) or gpu
        instance = _INSTANCE.match(line)
        if gpu is not None and instance is not None:
            found.append(_Listed(int(gpu.group(1)), gpu.group(3), int(instance.group(2)), instance.group(1),
                                 instance.group(3)))
    return found


def _told(program: str, until: float) -> Dict[Any, Dict[str, Any]]:
    """(UUID of the GPU, device) -> its reading; ``index`` is the pair of its ids."""
    from xml.etree import ElementTree  # of this file's readers few have such a GPU
    answer = ask([program, "-q", "-x"], until)
    if answer.exit_code:
        raise NoGpuReading("%s failed with exit code %d: %s" % (program, answer.exit_code, answer.why))
    try:
        root = ElementTree.fromstring(answer.text)
    except ElementTree.ParseError as error:
        raise NoGpuReading("%s printed XML that is not understood: %s" % (program, error)) from error
    found: Dict[Any, Dict[str, Any]] = {}
    for gpu in root.iter("gpu"):
        processes = list(gpu.iter("process_info"))
        for device in gpu.iter("mig_device"):
            ids = _number(device, "gpu_instance_id"), _number(device, "compute_instance_id")
            number = _number(device, "index")
            if number is None or None in ids:
                continue
            mine = [one for one in processes
                    if (_number(one, "gpu_instance_id"), _number(one, "compute_instance_id")) == ids]
            memory = {_number(one, "pid"): _number(one, "used_memory") for one in mine}
            used, total = (_number(device, "fb_memory_usage/" + name) for name in ("used", "total"))
            found[(gpu.findtext("uuid") or "").strip(), number] = {
                "index": ids, "memory_used": None if used is None else used * _MIB,
                "memory_total": None if total is None else total * _MIB, "processes": len(mine),
                "memory_of": {pid: size * _MIB for pid, size in memory.items() if pid is not None and size is not None}}
    return found


def _number(element: "ElementTree.Element", path: str) -> Optional[int]:
    """``19968 MiB`` is 19968; None for ``N/A``."""
    words = (element.findtext(path) or "").split()
    return whole_number(words[0]) if words else None
