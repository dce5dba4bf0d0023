"""Whether the database is of this program's version. Only reads. All raise DatabaseError."""

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


def missing_migrations() -> int:
    """How many changes ``migrate`` would make."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def unknown_migrations() -> list[str]:
    """What was done to the database by a newer version of this program, as ``app.name``, the newest last."""
    loader = MigrationExecutor(connection).loader
    known = {replaced for migration in loader.disk_migrations.values() for replaced in migration.replaces}
    return sorted(f"{app}.{name}" for app, name in loader.applied_migrations
                  if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
                  and (app, name) not in known)
