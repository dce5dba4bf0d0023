"""Changes of rows on the paths that each trial takes: like ``QuerySet.update``, with SQL that is put together once.

Django builds the statement anew each time, which takes several times as long as the database to carry it out (see also
``new_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connection, models

from nniweb.experiments.sql.column_values import column_value


@dataclass(frozen=True)
class IfNone:
    """A value for a column that holds nothing yet; what it holds stays."""

    value: Any


def update(model: type[models.Model], where: str, values: Sequence[Any], /, **changes: Any) -> int:
    """Set columns, by the names of their fields, in the rows that meet a condition; how many there were.

    ``where``: SQL with ``%s`` for each of ``values``, plain ones. It is one of the program's few texts: statements are
    kept.
    """
    fields = _fields(model)
    prepared = [column_value(fields[name], value.value if isinstance(value, IfNone) else value)
                for name, value in changes.items()]
    kept = frozenset(name for name, value in changes.items() if isinstance(value, IfNone))
    with connection.cursor() as cursor:
        cursor.execute(_statement(model, tuple(changes), kept, where), [*prepared, *values])
        return int(cursor.rowcount)


def update_each(model: type[models.Model], names: Sequence[str], where: str, rows: Sequence[Sequence[Any]]) -> int:
    """Set the same columns of many rows, each to values of its own; how many rows there were.

    Each of ``rows`` has the values of the fields ``names``, then those of ``where``, which is as for ``update``.
    """
    fields = [_fields(model)[name] for name in names]
    with connection.cursor() as cursor:
        cursor.executemany(_statement(model, tuple(names), frozenset(), where), [
            [*map(column_value, fields, row), *row[len(fields):]] for row in rows])
        return int(cursor.rowcount)


@lru_cache
def _fields(model: type[models.Model]) -> dict[str, Any]:
    return {name: field for field in model._meta.concrete_fields for name in (field.name, field.attname)}


@lru_cache
def _statement(model: type[models.Model], names: tuple[str, ...], kept: frozenset[str], where: str) -> str:
    quoted = connection.ops.quote_name
    columns = {name: quoted(_fields(model)[name].column) for name in names}
    changes = ", ".join(f"{column} = COALESCE({column}, %s)" if name in kept else f"{column} = %s"
                        for name, column in columns.items())
    return f"UPDATE {quoted(model._meta.db_table)} SET {changes} WHERE {where}"
