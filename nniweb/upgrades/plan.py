"""What an upgrade is going to do, in sentences, before it does it."""

from __future__ import annotations

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from nniweb.backups import database
from nniweb.backups.progress import in_time
from nniweb.experiments.sql.later_indexes import AddIndexLater, size_of_table

#: Bytes of a table that an index is built of in a second, for estimates.
INDEXED = 100e6
#: Changes that are named.
SHOWN = 5


def plan() -> str:
    """Which changes are missing, and what of them takes long with the present database. Raises DatabaseError, OSError.
    """
    executor = MigrationExecutor(connection)
    migrations = [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
    names = [migration.name for migration in migrations]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    said = (f"{len(names)} change(s) of the database ({database.size() / 1e6:,.1f} MB) are made in one transaction: "
            f"{', '.join(names[:SHOWN])}{more}.")
    indexes = [operation for migration in migrations for operation in migration.operations
               if isinstance(operation, AddIndexLater)]
    sizes = [size_of_table(f"{migrations[0].app_label}_{operation.model_name}") for operation in indexes] \
        if connection.vendor == "postgresql" else []
    if sum(sizes):
        said += (f" After that, {len(sizes)} index(es) are built of {sum(sizes) / 1e6:,.1f} MB, in about "
                 f"{in_time(sum(sizes) / INDEXED)}, while others read and write.")
    return said
