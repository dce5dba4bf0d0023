"""Brings the database to this program's version: backed up first, in one transaction, by one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.commands.migrate import Command as DjangosMigrate
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from nniweb import __version__
from nniweb.backups import database
from nniweb.database.outage_logs import first_line, is_database_away
from nniweb.experiments.sql.later_indexes import build_missing_indexes, missing_indexes
from nniweb.experiments.sql.schema_version import is_of_this_version, missing_migrations, note_this_version
from nniweb.storage.data_folder import ServerLock, read_address_file
from nniweb.storage.own_files import COMMAND
from nniweb.upgrades import backup_before
from nniweb.upgrades.one_at_a_time import one_at_a_time
from nniweb.upgrades.plan import plan
from nniweb.upgrades.refusal import too_new


class CannotUpgrade(Exception):
    """The database is as it was; the sentence says why, and what to do."""


def bring_up_to_date(say: Callable[[str], None], *, is_server: bool, verbosity: int = 0) -> None:
    """Make all changes that are missing. Raises CannotUpgrade, DatabaseError.

    ``is_server``: this process holds the data folder's lock. ``say`` is told what takes long; ``verbosity`` is that of
    Django's migrate. Waits where another process is at it.
    """
    if is_of_this_version() and not missing_indexes():
        return
    with one_at_a_time(say):
        _make_changes(say, is_server=is_server, verbosity=verbosity)
        _build_indexes(say)


def _make_changes(say: Callable[[str], None], *, is_server: bool, verbosity: int) -> None:
    if is_of_this_version():
        return
    if why_not := too_new():
        raise CannotUpgrade(why_not)
    if not is_server and database.member_name() == database.SQLITE:
        _no_server_may_run()
    try:
        # where one migration has come in place of others that were all made, only that is noted
        backup = backup_before.make(timezone.now(), say) if missing_migrations() else None
    except backup_before.NoBackup as error:
        raise CannotUpgrade(str(error)) from None
    if backup is not None:
        say(plan())
    try:
        _change(verbosity)
    except Exception as error:
        if backup is not None:  # of what is still there; whoever tries again and again shall not fill the disk
            backup.unlink(missing_ok=True)
        if is_database_away(error):  # locked, full or not there: that passes
            raise
        raise CannotUpgrade(
            f"The database could not be upgraded to NNI Web {__version__} and was not changed: "
            f"{type(error).__name__}: {first_line(error)}. Install the previous version, which can still use the "
            "database, and report this as a defect.") from error
    backup_before.remove_old_ones()
    if backup is not None:
        say(f"The database now has the version of NNI Web {__version__}.")


def _build_indexes(say: Callable[[str], None]) -> None:
    """What fails here is no failed upgrade: without an index some questions take longer."""
    try:
        build_missing_indexes(say)
    except DatabaseError as error:
        if is_database_away(error):
            raise
        say(f"An index could not be built: {first_line(error)}. The server works without it, and slower. Correct that, "
            f"and run {COMMAND} migrate, which tries again.")


def _change(verbosity: int) -> None:
    """All changes or, if one fails or the process ends, none."""
    connection.ensure_connection()
    try:
        # SQLite: tables are made anew, and what refers to them must not mind. Not possible within a transaction
        connection.disable_constraint_checking()
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    # a table cannot be changed while checks of its rows are put off until the end
                    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
                    cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            call_command(DjangosMigrate(), interactive=False, verbosity=verbosity)
            note_this_version()
    finally:
        connection.enable_constraint_checking()


def _no_server_may_run() -> None:
    lock = ServerLock(Path(settings.DATA_FOLDER))
    if lock.is_held():
        holder = read_address_file(lock.address_file).get("pid")
        raise CannotUpgrade("A server of another version runs on "
                            f"{settings.DATA_FOLDER}{f' (process {holder})' if holder else ''}. Stop it first. Its "
                            "trials continue.")
