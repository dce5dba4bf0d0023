"""CPU, memory and GPU readings of attempts over time, thinned."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from nniweb.experiments.models import ResourceReading
from nniweb.experiments.sql.new_rows import insert
from nniweb.experiments.sql.selected_rows import places

#: Most points kept per attempt; at this number every second one is dropped.
MAX_READINGS = 200


def store_readings(readings: Sequence[tuple[int, datetime, dict[str, Any]]]) -> None:
    """Add readings (attempt's primary key, time, data), one query for all, more for attempts that are thinned."""
    if not readings:
        return
    insert(ResourceReading(attempt_id=attempt, at=at, data=data) for attempt, at, data in readings)
    for attempt in _with_too_many(sorted({attempt for attempt, _, _ in readings})):
        points = ResourceReading.objects.filter(attempt_id=attempt).order_by("at").values_list("pk", flat=True)
        ResourceReading.objects.filter(pk__in=list(points)[1:-1:2]).delete()


def _with_too_many(attempts: Sequence[int]) -> list[int]:
    with connection.cursor() as cursor:  # by hand: most reports ask
        cursor.execute(f"SELECT attempt_id FROM {ResourceReading._meta.db_table} WHERE attempt_id IN {places(attempts)}"
                       " GROUP BY attempt_id HAVING COUNT(*) > %s ORDER BY attempt_id", [*attempts, MAX_READINGS])
        return [int(attempt) for attempt, in cursor.fetchall()]
