"""The GPUs that the agent of a machine tells: what runs there in the place of an agent may tell anything."""

from __future__ import annotations

from typing import Any

from trainingservice.limited_json import storable
from trainingservice.machine_shares.shares import is_amount
from trialkeeper import contract

#: GPUs and instances of one machine, and characters of a name.
MOST_GPUS, MOST_CHARACTERS = 1000, 200
_NUMBERS = frozenset({"utilization", "memory_used", "memory_total", "processes", "memory_errors", "others_bytes"})


def read_gpus(told: Any) -> list[dict[str, Any]]:
    """Those that have a number of their own, with the fields of ``trialkeeper.gpu_usage.read_gpus`` that are of the
    right kind.
    """
    found: dict[int, dict[str, Any]] = {}
    for each in told[:MOST_GPUS] if isinstance(told, list) else ():
        if isinstance(each, dict) and _is_index(each.get("index")):
            found[each["index"]] = {name: value if name != "name" else storable(value[:MOST_CHARACTERS])
                                    for name, value in each.items() if _is_sound(name, value)}
    return list(found.values())


def _is_sound(name: str, value: Any) -> bool:
    if name in ("index", "parent"):
        return _is_index(value)
    if name in _NUMBERS:
        return value is None or is_amount(value)
    return (name == "name" and isinstance(value, str) or name == "exclusive" and isinstance(value, bool)
            or name == "fault" and value in contract.GPU_FAULTS)


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
