"""CPUs and main memory that jobs have of a machine, and what it has for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from trainingservice.reasons import Reason

#: CPUs are given in parts, whose sum is not exact.
_ROUNDING = 1e-6


class MachineShare(NamedTuple):
    """``memory``: bytes. Of a job 0 means that it does not say; of a machine, that nobody knows, and all is refused
    nothing.
    """

    cpus: float = 0.0
    memory: int = 0

    def times(self, number: int) -> MachineShare:
        return MachineShare(self.cpus * number, self.memory * number)

    def fits(self, room: MachineShare, held: Iterable[MachineShare]) -> bool:
        """Whether a machine with ``room`` has so much left beside what jobs hold there."""
        left = left_of(room, held)
        return not (self.cpus and room.cpus and self.cpus > left.cpus + _ROUNDING
                    or self.memory and room.memory and self.memory > left.memory)


NOTHING = MachineShare()


def left_of(room: MachineShare, held: Iterable[MachineShare]) -> MachineShare:
    """What of ``room`` nobody holds."""
    held = list(held)
    return MachineShare(max(0.0, room.cpus - sum(one.cpus for one in held)),
                        max(0, room.memory - sum(one.memory for one in held)))


def room_of(about: Mapping[str, Any], cpu_number: float | None, memory_megabytes: int | None) -> MachineShare:
    """What jobs may have together on a machine. ``about``: what its agent says of it; the others, where they are given,
    are what its administrator lets them have.
    """
    found = about.get("for_trials")
    # a machine may tell anything; what is no number is not known
    told = {name: value for name, value in found.items() if is_amount(value)} if isinstance(found, dict) else {}
    return MachineShare(cpu_number or float(told.get("cpus", 0.0)),
                        memory_megabytes * 1024 ** 2 if memory_megabytes else int(told.get("memory", 0)))


def is_amount(told: Any) -> bool:
    """Whether it is a number of bytes, processors or the like."""
    return isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < 2**63


def why_never(asked: MachineShare, room: MachineShare, machine: str) -> Reason | None:
    """Why a machine can never run a job that asks for so much; None where it can."""
    if asked == NOTHING or asked.fits(room, ()):
        return None
    return Reason("machine_too_small", machine=machine, cpus=asked.cpus, memory=asked.memory, has_cpus=room.cpus,
                  has_memory=room.memory)


def why_not_now(asked: MachineShare, room: MachineShare, held: Iterable[MachineShare], machine: str) -> Reason | None:
    """What of a machine a job waits for; None where there is enough."""
    if asked == NOTHING:
        return None
    held = list(held)
    if asked.fits(room, held):
        return None
    left = left_of(room, held)
    return Reason("machine_share_held", machine=machine, cpus=asked.cpus, memory=asked.memory,
                  free_cpus=round(left.cpus, 3) if room.cpus else asked.cpus,
                  free_memory=left.memory if room.memory else asked.memory)
