"""What a script's output, files or calls say of its metrics, and how values of one step come together."""

from typing import Any, Dict, List, NamedTuple, Optional, Set

#: Fields that count steps, the one that counts first: they are no metrics.
STEPS = ("step", "global_step", "iteration", "epoch")
_TOO_LARGE = 10 ** 300
#: Objects within each other whose numbers are read, and numbers of one object.
_DEEPEST, _MOST_NUMBERS = 4, 10_000
#: Seconds for which a step may wait for further values.
PATIENCE = 1.0
#: Names of metrics that are remembered: a script may print any number.
MOST_EXPECTED = 1000


class Measured(NamedTuple):
    """Values that were read at one place. ``position``: how far the source was read then (any JSON value)."""

    values: Dict[str, float]
    #: None: they belong to no step, and so to no other values.
    step: Optional[float]
    position: Any


def metrics_in(fields: Dict[str, Any], position: Any) -> Optional[Measured]:
    """The numbers among these fields, those of inner objects under names with dots; None where there are none."""
    values = {name: number for name, number in _numbers(fields, "", _DEEPEST).items() if name not in STEPS}
    if not values:
        return None
    steps = [float(fields[name]) for name in STEPS if _is_number(fields.get(name))]
    return Measured(values, steps[0] if steps else None, position)


def _numbers(fields: Dict[str, Any], prefix: str, depth: int) -> Dict[str, float]:
    found: Dict[str, float] = {}
    for name, value in fields.items():
        if _is_number(value):
            found[prefix + name] = float(value)
        elif isinstance(value, dict) and depth and len(found) < _MOST_NUMBERS:
            found.update(_numbers({str(key): item for key, item in value.items()}, prefix + name + ".", depth - 1))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) < _TOO_LARGE)


class StepGroups:
    """Of one source: puts together what was measured at the same step.

    A group is complete when a value of another step comes, when a metric comes again, when it has all metrics that
    groups before had, or when nothing has come for PATIENCE.
    """

    def __init__(self) -> None:
        self._open: Optional[Measured] = None
        self._opened_at = 0.0
        self._expected: Set[str] = set()

    def add(self, measured: Measured, now: float) -> List[Measured]:
        """Groups that are complete now. ``now``: monotonic seconds."""
        if measured.step is None:
            return [*self.close(), measured]
        complete = []
        group = self._open
        if group is not None and (group.step != measured.step or not group.values.keys().isdisjoint(measured.values)):
            complete = self.close()
            group = None
        if group is None:
            self._open, self._opened_at = measured, now
        else:
            group.values.update(measured.values)
            self._open = Measured(group.values, group.step, measured.position)
        if self._expected and self._open is not None and self._expected <= self._open.values.keys():
            complete += self.close()
        return complete

    def close(self, now: Optional[float] = None) -> List[Measured]:
        """The open group, if any; with ``now`` only where it has waited long enough."""
        group = self._open
        if group is None or now is not None and now - self._opened_at < PATIENCE:
            return []
        self._open = None
        if len(self._expected) < MOST_EXPECTED:
            self._expected.update(group.values)
        return [group]
