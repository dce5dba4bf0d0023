"""The Pareto front of points that come one after the other."""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Losses = Sequence[float]


def losses_of(values: Sequence[float], modes: Sequence[str]) -> tuple[float, ...]:
    """Values in which less is better, whatever the objectives want (maximize or minimize)."""
    return tuple(-value if mode == "maximize" else value for value, mode in zip(values, modes, strict=True))


def dominates(one: Losses, other: Losses) -> bool:
    """Whether ``one`` is nowhere worse and somewhere better. Equal points do not dominate each other."""
    better = False
    for mine, theirs in zip(one, other, strict=True):
        if mine > theirs:
            return False
        better = better or mine < theirs
    return better


class ParetoFront(Generic[Key]):
    """Points that no other point dominates, by key. Each new point is compared with the front alone; which points are
    on it in the end does not depend on their order.
    """

    def __init__(self) -> None:
        self.points: dict[Key, Losses] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self.points

    def add(self, key: Key, losses: Losses) -> None:
        """Take a point; those that it dominates leave the front."""
        if any(dominates(known, losses) for known in self.points.values()):
            return
        self.points = {other: known for other, known in self.points.items() if not dominates(losses, known)}
        self.points[key] = losses
