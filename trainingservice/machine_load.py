"""How busy a machine is, for people who look where there is room. Nothing is scheduled by it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class MachineLoad:
    """Processors and memory of a machine, used by whatever runs there. Memory in bytes."""

    cpu_used: float
    cpu_total: float
    memory_used: int
    memory_total: int

    @classmethod
    def from_document(cls, told: object) -> MachineLoad | None:
        """Of what an agent or a row says; None where it is no load."""
        if not isinstance(told, dict):
            return None
        try:
            load = cls(float(told["cpu_used"]), float(told["cpu_total"]), int(told["memory_used"]),
                       int(told["memory_total"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        is_sound = math.isfinite(load.cpu_total) and 0 <= load.cpu_used <= load.cpu_total and load.cpu_total > 0 \
            and 0 <= load.memory_used <= load.memory_total < 2**63 and load.memory_total > 0
        return load if is_sound else None

    def document(self) -> dict[str, float | int]:
        return asdict(self)

    def is_like(self, other: MachineLoad | None) -> bool:
        """Whether a bar of the two would look the same: less than one hundredth of the whole is between them."""
        return other is not None and self.cpu_total == other.cpu_total and self.memory_total == other.memory_total \
            and abs(self.cpu_used - other.cpu_used) < self.cpu_total / 100 \
            and abs(self.memory_used - other.memory_used) < self.memory_total / 100
