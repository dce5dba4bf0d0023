"""Whether the database is of this program's version, and which version made it. All raise DatabaseError.

Each time that a version has changed the database it leaves a row of ``DatabaseVersion``.
"""

import pkgutil
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from nniweb import __version__

#: As whose migrations the versions stood in Django's table, until they had one of their own.
VERSIONS = "nniweb"


def is_of_this_version() -> bool:
    """Whether each change that is known was made, and no other. Loads no migration: costs two questions."""
    known = {(config.label, module.name) for config in apps.get_app_configs()
             if (folder := Path(config.path, "migrations")).is_dir()
             for module in pkgutil.iter_modules([str(folder)]) if module.name[0] not in "_~"}
    labels = {label for label, _ in known}
    applied = {change for change in MigrationRecorder(connection).applied_migrations() if change[0] in labels}
    return applied == known


def missing_migrations() -> int:
    """How many changes ``migrate`` would make."""
    if is_of_this_version():
        return 0
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def unknown_migrations() -> list[str]:
    """What was done to the database by a newer version of this program, as ``app.name``, the newest last."""
    if is_of_this_version():
        return []
    loader = MigrationExecutor(connection).loader
    known = {replaced for migration in loader.disk_migrations.values() for replaced in migration.replaces}
    return sorted(f"{app}.{name}" for app, name in loader.applied_migrations
                  if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
                  and (app, name) not in known)


def last_version() -> str:
    """The version that changed the database last; "" for one from before versions were noted (0.1.0), or an empty one.
    """
    versions = _versions()
    # asked of databases of any version: the table need not be there
    if versions._meta.db_table not in connection.introspection.table_names():
        return ""
    last = versions.objects.order_by("pk").last()
    return last.version if last is not None else ""


def note_this_version() -> None:
    """This version has changed the database. Writes."""
    _versions().objects.create(version=__version__, at=timezone.now())


def _versions() -> Any:
    # by its name: models import this folder
    return apps.get_model("experiments", "DatabaseVersion")


def why_too_new() -> str:
    """A sentence where the database was written by a newer version than this program, and what to do; "" elsewhere."""
    beyond = unknown_migrations()
    if not beyond:
        return ""
    return (f"The database was upgraded by {wording(last_version())}, which made changes that this program, NNI Web "
            f"{__version__}, does not know ({beyond[-1]}). Nothing was changed.")


def wording(version: str) -> str:
    """A version for a sentence."""
    return f"NNI Web {version}" if version else "another version of NNI Web"
