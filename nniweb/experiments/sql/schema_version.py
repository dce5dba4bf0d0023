"""Whether the database is of this program's version, and which version made it. All raise DatabaseError.

Each time that a version has changed the database it leaves a row in Django's own table of migrations, with "nniweb" as
the application and its number as the name. Django passes over rows of applications without migrations, and so does
every version of ours; a copy of the database has them, on whichever kind of database.
"""

import pkgutil
from pathlib import Path

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from nniweb import __version__

#: As whose migrations the versions stand in the table.
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
    rows = MigrationRecorder(connection).applied_migrations().items()
    noted = [(row.applied, row.pk, name) for (app, name), row in rows if app == VERSIONS]
    return max(noted)[2] if noted else ""


def note_this_version() -> None:
    """This version has changed the database. Writes."""
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied(VERSIONS, __version__)  # noted before, too: the newest row is the last version
    recorder.record_applied(VERSIONS, __version__)


def why_too_new() -> str:
    """A sentence where the database was written by a newer version than this program, and what to do; "" elsewhere."""
    beyond = unknown_migrations()
    if not beyond:
        return ""
    return (f"The database was brought to its present form by {wording(last_version())}, which made changes that this "
            f"program, NNI Web {__version__}, does not know ({beyond[-1]}). Nothing was touched.")


def wording(version: str) -> str:
    """A version for a sentence."""
    return f"NNI Web {version}" if version else "another version of NNI Web"
