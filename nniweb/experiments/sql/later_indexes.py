"""Indexes on tables with many rows: on PostgreSQL they are built after an upgrade, while others read and write.

An upgrade is one transaction, and within one an index can only be built while nobody writes. So its migration leaves
the index out, and whoever migrates the database builds what is missing. What is missing is what the models have and the
database has not, or has unfinished: whatever moment the building is interrupted at, the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddIndex
from django.db.migrations.state import ProjectState
from django.db.models import Index, Model

APP = "experiments"


class AddIndexLater(AddIndex):
    """Adds an index to a table that may be large. Without rows it is there at once, and so it is on SQLite, which one
    process has for itself while it is migrated.
    """

    def database_forwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState,
                          to_state: ProjectState) -> None:
        table = to_state.apps.get_model(app_label, self.model_name)._meta.db_table
        if schema_editor.connection.vendor != "postgresql" or not size_of_table(table):
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState,
                           to_state: ProjectState) -> None:
        if schema_editor.connection.vendor != "postgresql" or self.index.name in _whole_indexes(whole=None):
            super().database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        return f"{super().describe()}, on PostgreSQL after the upgrade"


def missing_indexes() -> list[tuple[type[Model], Index]]:
    """Those that are still to be built; of a database of this version. One query; none on SQLite. Raises DatabaseError.
    """
    if connection.vendor != "postgresql":
        return []
    whole = _whole_indexes(whole=True)
    return [(model, index) for model in apps.get_app_config(APP).get_models() for index in model._meta.indexes
            if index.name not in whole]


def build_missing_indexes(say: Callable[[str], object]) -> int:
    """Build them one after the other, outside of any transaction; how many there were. Raises DatabaseError.

    ``say`` is told before each what is built, and of how large a table.
    """
    missing = missing_indexes()
    for number, (model, index) in enumerate(missing, 1):
        say(f"Index {number} of {len(missing)} is built: {index.name}, of a table of "
            f"{size_of_table(model._meta.db_table) / 1e6:,.0f} MB. The server may run meanwhile.")
        with connection.cursor() as cursor:
            # what an interrupted one left is of no use, and in the way
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(index.name)}")
        with connection.schema_editor(atomic=False) as editor:
            editor.add_index(model, index, concurrently=True)  # type: ignore[call-arg]  # of PostgreSQL's
    return len(missing)


def size_of_table(table: str) -> int:
    """Of PostgreSQL: bytes of its rows, the removed ones included; 0 of one that is not there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size(to_regclass(%s))", [connection.ops.quote_name(table)])
        return int(cursor.fetchone()[0] or 0)


def _whole_indexes(*, whole: bool | None) -> set[Any]:
    """Names of the indexes on our tables; ``whole``: of those alone that can be used."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT index.relname FROM pg_index AS one JOIN pg_class AS index ON index.oid = one.indexrelid"
            " WHERE pg_table_is_visible(one.indrelid)" + (" AND one.indisvalid AND one.indisready" if whole else ""))
        return {name for (name,) in cursor.fetchall()}
