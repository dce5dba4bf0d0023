"""Rows read on the paths that each trial takes: like ``QuerySet.raw``, with what is known of the columns kept.

Django finds out anew each time which columns there are and how each is read, which takes longer than the reading (see
also ``new_rows`` and ``changed_rows``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.expressions import Col

M = TypeVar("M", bound=models.Model)


def select(model: type[M], names: tuple[str, ...], rest: str, values: Sequence[Any] = ()) -> list[M]:
    """Rows with these fields, the primary key among them; others are read when they are asked for.

    ``rest``: SQL from WHERE on with ``%s`` for each of ``values``, plain ones. It is one of the program's few texts.
    """
    statement, attributes, readers = _reading(model, names)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} {rest}", values)
        found = cursor.fetchall()
    if readers:
        found = [_read(row, readers) for row in found]
    return [model.from_db(connection.alias, attributes, row) for row in found]


def is_any(model: type[models.Model], condition: str, values: Sequence[Any] = ()) -> bool:
    """Whether this SQL, with ``%s`` for each of ``values``, is true of any row. For loops that ask often."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {model._meta.db_table} WHERE {condition} LIMIT 1", values)
        return cursor.fetchone() is not None


@lru_cache
def reading_of(model: type[models.Model], name: str) -> Callable[[Any], Any]:
    """What makes Python's value of a field from the one that the database gives, for statements of one's own."""
    field: Any = model._meta.get_field(name)
    column = Col(model._meta.db_table, field)
    return _reader(column, connection.ops.get_db_converters(column) + field.get_db_converters(connection))


def places(values: Collection[object]) -> str:
    """For ``IN``: as many places as there are values, of which there must be one."""
    return f"({', '.join(['%s'] * len(values))})"


def _read(row: tuple[Any, ...], readers: Sequence[tuple[int, Callable[[Any], Any]]]) -> list[Any]:
    values = list(row)
    for place, reader in readers:
        values[place] = reader(values[place])
    return values


@lru_cache
def _reading(model: type[models.Model], names: tuple[str, ...]) -> tuple[
        str, tuple[str, ...], tuple[tuple[int, Callable[[Any], Any]], ...]]:
    """The statement as far as WHERE; the attributes in the model's order; how columns that need it are read."""
    fields: list[Any] = [field for field in model._meta.concrete_fields if field.name in names]
    assert len(fields) == len(names), f"{model.__name__} has not all of {names}"
    quoted = connection.ops.quote_name
    columns = ", ".join(quoted(field.column) for field in fields)
    readers = []
    for place, field in enumerate(fields):
        column = Col(model._meta.db_table, field)
        converters = connection.ops.get_db_converters(column) + field.get_db_converters(connection)
        if converters:
            readers.append((place, _reader(column, converters)))
    return (f"SELECT {columns} FROM {quoted(model._meta.db_table)}",
            tuple(field.attname for field in fields), tuple(readers))


def _reader(column: Col, converters: Sequence[Callable[[Any, Col, Any], Any]]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        for convert in converters:
            value = convert(value, column, connection)
        return value
    return read
