"""CPU, memory and GPU readings of attempts over time, thinned."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nniweb.experiments.models import ResourceReading

#: Most points kept per attempt; at this number every second one is dropped.
MAX_READINGS = 200


def store_readings(readings: Sequence[tuple[int, datetime, dict[str, Any]]]) -> None:
    """Add readings (attempt's primary key, time, data), one query per thinned attempt."""
    if not readings:
        return
    ResourceReading.objects.bulk_create(
        ResourceReading(attempt_id=attempt, at=at, data=data) for attempt, at, data in readings)
    for attempt in {attempt for attempt, _, _ in readings}:
        points = list(ResourceReading.objects.filter(attempt_id=attempt).order_by("at").values_list("pk", flat=True))
        if len(points) > MAX_READINGS:
            ResourceReading.objects.filter(pk__in=points[1:-1:2]).delete()
