"""New rows on the paths that each trial takes: like ``bulk_create``, with SQL that is put together once.

Django builds the statement anew each time, which takes ten times as long as the database to carry it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

from django.db import connection, models

from nniweb.experiments.sql.column_values import column_value

M = TypeVar("M", bound=models.Model)

#: Rows of one statement: below what a database takes as parameters, with the widest of our tables.
AT_ONCE = 200


def insert(rows: Iterable[M]) -> list[M]:
    """Store new instances of one model, plain values only, and give them their primary keys. They come back in order.

    Sends no signals. Raises IntegrityError as ``bulk_create`` does.
    """
    stored = list(rows)
    for start in range(0, len(stored), AT_ONCE):
        chunk = stored[start: start + AT_ONCE]
        fields = _fields(type(chunk[0]))
        values: list[Any] = [column_value(field, getattr(row, field.attname))
                             for row in chunk for field in fields]
        with connection.cursor() as cursor:
            cursor.execute(_statement(type(chunk[0]), len(chunk)), values)
            for row, (key,) in zip(chunk, cursor.fetchall(), strict=True):
                row.pk, row._state.adding, row._state.db = key, False, connection.alias
    return stored


def insert_unless_there(row: models.Model) -> bool:
    """Store a new instance whose unique columns no row has yet; whether none had. Its primary key is not told."""
    fields = _fields(type(row))
    with connection.cursor() as cursor:
        cursor.execute(_unless_there(type(row)), [column_value(field, getattr(row, field.attname)) for field in fields])
        return bool(cursor.rowcount > 0)


@lru_cache
def _unless_there(model: type[models.Model]) -> str:
    return f"{_statement(model, 1).partition(' RETURNING ')[0]} ON CONFLICT DO NOTHING"


@lru_cache
def _fields(model: type[models.Model]) -> tuple[Any, ...]:
    return tuple(field for field in model._meta.concrete_fields if not field.primary_key)


@lru_cache
def _statement(model: type[models.Model], count: int) -> str:
    quoted = connection.ops.quote_name
    columns = ", ".join(quoted(field.column) for field in _fields(model))
    places = f"({', '.join(['%s'] * len(_fields(model)))})"
    key = str(next(field.column for field in model._meta.concrete_fields if field.primary_key))
    return (f"INSERT INTO {quoted(model._meta.db_table)} ({columns}) VALUES {', '.join([places] * count)}"
            f" RETURNING {quoted(key)}")
