"""How often keepers that have nothing to say report, and when one of them counts as silent."""

from datetime import timedelta

#: Seconds between two reports of a keeper that has nothing to say: the fewest, and the most in a large installation
#: (``ingest.report_intervals`` decides).
SHORTEST, LONGEST = 10.0, 120.0
#: Seconds after the promised report until a keeper may be missed: it has been asked, its answer may be lost, and it
#: asks again.
GRACE = 30.0


def missed_after(report_within: int | None, at_least: float) -> timedelta:
    """So long after its last report a keeper is missed that was asked to report again within so many seconds.

    ``report_within``: None where an earlier version asked it. ``at_least``: seconds for which none is missed.
    """
    return timedelta(seconds=max(at_least, (report_within or SHORTEST) + GRACE))
