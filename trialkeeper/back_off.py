"""Pauses between tries that fail: each twice as long as the one before, and not the same for all who wait."""

from typing import Tuple

#: So often a pause is doubled at most: numbers stay small however long something is away.
_MOST_DOUBLINGS = 20


def back_off(failures: int, limits: Tuple[float, float], chance: float = 1.0) -> float:
    """Seconds to wait after so many failures in a row before the last one.

    ``limits``: the first and the longest pause. ``chance``, from 0 to 1, takes away up to a half, so that many do not
    all come back at one moment.
    """
    first, longest = limits
    return min(longest, first * 2.0 ** min(failures, _MOST_DOUBLINGS)) * (0.5 + 0.5 * chance)
