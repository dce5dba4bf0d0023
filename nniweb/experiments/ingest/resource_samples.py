"""CPU, memory and GPU readings of attempts over time, thinned."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from nniweb.experiments.models import ResourceReading
from nniweb.experiments.sql.new_rows import insert

#: Most points kept per attempt; at this number every second one is dropped.
MAX_READINGS = 200


def store_readings(readings: Sequence[tuple[int, datetime, dict[str, Any]]]) -> None:
    """Add readings (attempt's primary key, time, data), one query per attempt, more where they are thinned."""
    if not readings:
        return
    insert(ResourceReading(attempt_id=attempt, at=at, data=data) for attempt, at, data in readings)
    for attempt in sorted({attempt for attempt, _, _ in readings}):
        if _count(attempt) > MAX_READINGS:
            points = ResourceReading.objects.filter(attempt_id=attempt).order_by("at").values_list("pk", flat=True)
            ResourceReading.objects.filter(pk__in=list(points)[1:-1:2]).delete()


def _count(attempt: int) -> int:
    with connection.cursor() as cursor:  # by hand: most reports ask
        cursor.execute(f"SELECT COUNT(*) FROM {ResourceReading._meta.db_table} WHERE attempt_id = %s", [attempt])
        return int(cursor.fetchone()[0])
