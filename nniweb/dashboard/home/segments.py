"""The bar that shows how the trials of an experiment ended: static/js/ui/segments.js draws the same."""

from collections.abc import Mapping
from dataclasses import dataclass

from trainingservice.words.status_words import status_word

#: Statuses in the order of the bar; those of a group are one piece. What is left of the bar has not begun.
PIECES = (("SUCCEEDED",), ("EARLY_STOPPED",), ("USER_CANCELED", "SYS_CANCELED"), ("FAILED",), ("RUNNING", "UNKNOWN"))
#: Of a piece that would be too thin to be seen, in hundredths of the bar.
LEAST = 1.5


@dataclass(frozen=True)
class Segment:
    """Place and width in hundredths of the bar."""

    status: str
    count: int
    start: float
    width: float


def segments(counts: Mapping[str, int], limit: int | None) -> list[Segment]:
    """``counts``: trials by status. The whole bar is ``limit`` trials, or all there are if those are more."""
    numbers = [(group[0], sum(counts.get(status, 0) for status in group)) for group in PIECES]
    total = max(limit or 0, sum(counts.values()), 1)
    widths = [max(100 * count / total, LEAST) if count else 0 for _, count in numbers]
    too_wide = max(sum(widths) / 100, 1)
    found, start = [], 0.0
    for (status, count), width in zip(numbers, widths, strict=True):
        if count:
            found.append(Segment(status, count, round(start, 2), round(width / too_wide, 2)))
        start += width / too_wide
    return found


def words(counts: Mapping[str, int], limit: int | None) -> str:
    """The same for people who do not see it: "12 succeeded, 2 failed, of 50 trials"."""
    pieces = [f"{segment.count} {status_word(segment.status).lower()}" for segment in segments(counts, limit)]
    total = max(limit or 0, sum(counts.values()))
    return f"{', '.join(pieces) or 'none ended'}, of {total} trials"
