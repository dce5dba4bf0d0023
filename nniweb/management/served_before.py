"""Commands that need a database which the server has made."""

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from nniweb.own_files import START


def require_served_before() -> None:
    """Raise CommandError, with what to do, where the database is not there or older than this program."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        raise CommandError(f"The database cannot be used: {error}") from None
    if missing:
        raise CommandError(
            f"The data folder {settings.DATA_FOLDER} holds no database of this version. Start the server once "
            f"({START}), or name the folder it uses with NNIWEB_DATA.")
