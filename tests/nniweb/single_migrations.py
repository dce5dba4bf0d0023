"""The migrations that a squashed one stands for, one by one, as databases get them that have some of them."""

from __future__ import annotations

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader


class SingleMigrations(MigrationLoader):
    """Knows no squashed migration."""

    def load_disk(self) -> None:
        super().load_disk()
        self.disk_migrations = {key: one for key, one in self.disk_migrations.items() if not one.replaces}


def migrate(*targets: tuple[str, str]) -> None:
    """The default database to these migrations, forwards or backwards; without any, forwards to the last ones."""
    executor = MigrationExecutor(connection)
    executor.loader = SingleMigrations(connection)
    executor.migrate(list(targets) or executor.loader.graph.leaf_nodes())
