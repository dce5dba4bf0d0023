"""How busy this machine is: processors and memory, of all its processes. Linux only, through /proc."""

from typing import Dict, Optional, Tuple, Union

Load = Dict[str, Union[int, float]]


class MachineLoad:
    """Reads the machine's load. A container reads what its host shows it, mostly the whole host."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._before = self._ticks()

    def read(self) -> Optional[Load]:
        """``cpu_used`` (processors that were busy on average since the last reading), ``cpu_total``, ``memory_used``
        and ``memory_total`` (bytes); None where the machine does not tell.
        """
        before, now = self._before, self._ticks()
        self._before = now
        memory = self._memory()
        if before is None or now is None or memory is None:
            return None
        all_ticks = now[1] - before[1]
        if all_ticks <= 0:
            return None
        busy = min(1.0, max(0.0, (now[0] - before[0]) / all_ticks))
        return {"cpu_used": round(busy * now[2], 2), "cpu_total": now[2], "memory_used": memory[0],
                "memory_total": memory[1]}

    def _ticks(self) -> Optional[Tuple[int, int, int]]:
        """Ticks that processors were busy, ticks in all, and how many processors there are."""
        try:
            with open(self._proc + "/stat", encoding="ascii") as stream:
                lines = [line.split() for line in stream if line.startswith("cpu")]
            # user nice system idle iowait irq softirq steal; those of guests are in the first two
            ticks = [int(text) for text in lines[0][1:9]]
            return sum(ticks) - ticks[3] - ticks[4], sum(ticks), len(lines) - 1
        except (OSError, ValueError, IndexError):
            return None

    def _memory(self) -> Optional[Tuple[int, int]]:
        """Bytes that new programs could not have, and bytes in all."""
        try:
            with open(self._proc + "/meminfo", encoding="ascii") as stream:
                fields = dict(line.split(":", 1) for line in stream if ":" in line)
            total, available = (int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
        except (OSError, ValueError, KeyError, IndexError):
            return None
        return max(0, total - available), total
