"""Values as columns take them, for statements put together by hand."""

from __future__ import annotations

from typing import Any

from django.db import connection, models

#: Fields that hand these kinds of values over as they are: asking them takes longer than storing the value.
_PLAIN: dict[type[models.Field[Any, Any]], type] = {
    models.CharField: str, models.TextField: str, models.IntegerField: int, models.BigIntegerField: int,
    models.PositiveIntegerField: int, models.PositiveBigIntegerField: int, models.BooleanField: bool,
    models.ForeignKey: int, models.FloatField: float}


def column_value(field: Any, value: Any) -> Any:
    """What the database is given for a field's value."""
    return value if type(value) is _PLAIN.get(type(field)) else field.get_db_prep_save(value, connection)
