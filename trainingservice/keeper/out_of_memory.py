"""A trial that ran out of memory: as its keeper tells it, and as a reason."""

from __future__ import annotations

from typing import Any

from trainingservice.limited_json import storable
from trainingservice.reasons import Reason
from trainingservice.words.byte_size import byte_size
from trialkeeper import contract

#: Code of the reason, also where a platform gives it.
OUT_OF_MEMORY = "out_of_memory"
#: The line of output is cut to this length.
MAX_LINE = 500


def read_out_of_memory(raw: Any) -> contract.OutOfMemoryDocument | None:
    """From an ``ended`` entry or EXIT_FILE. None where it is not told, or not in a form that can be read: the end is
    told all the same.
    """
    if not isinstance(raw, dict) or raw.get("memory") not in (contract.GPU_MEMORY, contract.MAIN_MEMORY) \
            or raw.get("by") not in (contract.BY_TEXT, contract.BY_KERNEL, contract.BY_LIMIT) \
            or not isinstance(raw.get("line"), str):
        return None
    told: contract.OutOfMemoryDocument = {
        "memory": raw["memory"], "by": raw["by"], "line": storable(raw["line"][:MAX_LINE]),
        "gpu_total": _size(raw.get("gpu_total"))}
    if (limit := _size(raw.get("limit"))) is not None:
        told["limit"] = limit
    return told


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63 else None


def reason_for(told: contract.OutOfMemoryDocument) -> Reason:
    """Why such a trial failed."""
    if told["memory"] == contract.GPU_MEMORY:
        of = "" if told["gpu_total"] is None else f" (its GPU has {byte_size(told['gpu_total'])})"
        said = f"The trial ran out of GPU memory{of}."
    elif (limit := told.get("limit")) is not None:
        said = (f"The trial took more than the {byte_size(limit)} of main memory that trialMemorySize lets it have, "
                "and was ended.")
    elif told["by"] == contract.BY_KERNEL:
        said = ("The trial ran out of main memory: the kernel killed it or a process of it, because the machine, or a "
                "limit on the trial, had no memory left.")
    else:
        said = "The trial ran out of main memory."
    if told["line"]:
        said = f"{said} It wrote: {told['line']}"
    return Reason(OUT_OF_MEMORY, said=said, platform="", memory=told["memory"], line=told["line"],
                  gpu_total=told["gpu_total"])


def memory_that_ran_out(message: str) -> str:
    """What a trial that ended with this message ran out of: contract.GPU_MEMORY or MAIN_MEMORY, "" where it did not.

    Platforms limit main memory only.
    """
    if not isinstance(message, Reason):
        return ""
    because = message.arguments.get("because")  # of one rank of several
    for found in ({"code": message.code, **message.arguments}, because if isinstance(because, dict) else {}):
        if found.get("code") == OUT_OF_MEMORY:
            return contract.GPU_MEMORY if found.get("memory") == contract.GPU_MEMORY else contract.MAIN_MEMORY
    return ""


def gpu_total_of(message: str) -> int | None:
    """Bytes of memory of the GPU that did not suffice; None where that is not known."""
    if not isinstance(message, Reason):
        return None
    because = message.arguments.get("because")
    total = message.arguments.get("gpu_total") or (because.get("gpu_total") if isinstance(because, dict) else None)
    return total if isinstance(total, int) else None
