"""The database: reachable, whole, of this program's version, willing to be written, its secrets openable."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection

from nniweb.backups.database import damage_of_sqlite
from nniweb.database import connection_limits
from nniweb.database.outage_logs import first_line
from nniweb.doctor.findings import Finding, unknown, warning, well, wrong
from nniweb.experiments.secrets.key_rotation import unreadable_secrets
from nniweb.experiments.sql.later_indexes import missing_indexes
from nniweb.experiments.sql.schema_version import missing_migrations, unknown_migrations
from nniweb.storage.own_files import COMMAND, START

#: Seconds that a write may wait for another process, and that the look for damage may take.
LOCK_SECONDS, DAMAGE_SECONDS = 5.0, 60.0
_RESTORE = f"Stop the server and restore the last backup: {COMMAND} restore FILE --force (docs/backup.md)."


def database() -> Iterator[Finding]:
    """A WRONG one means: nothing that asks the database can be looked at."""
    path = _sqlite_file()
    if path is not None:
        if not path.exists():
            yield wrong("database", f"The database {path} does not exist yet.",
                        f"Start the server once ({START}), or set NNIWEB_DATA to the data folder of your installation.")
            return
        if damage := damage_of_sqlite(path, in_use=True, patience=DAMAGE_SECONDS):
            yield wrong("database", f"{path} is damaged: {damage}.", _RESTORE)
            return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        missing, beyond = missing_migrations(), unknown_migrations()
    except DatabaseError as error:
        yield wrong("database", f"The database cannot be reached: {first_line(error)}.",
                    "Check that the database server runs and accepts connections from this machine, and that address, "
                    "user and password in NNIWEB_DATABASE_URL are correct." if path is None else
                    f"Check that the server's user may read and write {path} and its folder.")
        return
    if beyond:
        yield wrong("database", f"The database is newer than this program, which does not know {beyond[0]}.",
                    "Install the newer version of NNI Web again, or restore the backup from before its first start.")
    elif missing:
        yield wrong("database", f"The database is older than this program: {missing} changes are missing.",
                    f"Run {COMMAND} migrate, or start the server, which does the same.")
    else:
        yield well("database", "The database can be reached and has this program's version.")
        yield _writable(path)
        if unbuilt := missing_indexes():
            yield warning("database indexes", f"{len(unbuilt)} index(es) of the database are not built, so that some "
                                              f"pages are slow: {', '.join(index.name for _, index in unbuilt[:5])}.",
                          f"Run {COMMAND} migrate. The server may run meanwhile.")


def database_connections() -> Iterator[Finding]:
    """Whether PostgreSQL takes all connections that the webs and workers of now may open."""
    room = connection_limits.room()
    if room is not None:
        yield well("database connections", f"{room}.") if room.is_enough else \
            warning("database connections", f"{room}.", connection_limits.REMEDY)


def secrets() -> Iterator[Finding]:
    """Whether the stored secrets can be opened with the keys of this installation."""
    try:
        lost = unreadable_secrets()
    except ValueError:
        yield wrong("secrets", "NNIWEB_SEAL_KEYS, or the file keys/seal_keys, does not contain valid keys.",
                    "Restore the keys from a backup.")
        return
    if lost:
        yield wrong("secrets", f"{len(lost)} stored secret(s) cannot be decrypted with any of the keys: "
                               f"{', '.join(lost[:5])}.",
                    "Restore the old key (keys/seal_keys of a backup, or a second key in NNIWEB_SEAL_KEYS), or set "
                    "these secrets again.")
    else:
        yield well("secrets", "All stored secrets can be decrypted.")


def _sqlite_file() -> Path | None:
    chosen = settings.DATABASES["default"]
    return Path(chosen["NAME"]) if "sqlite" in chosen["ENGINE"] else None


def _writable(path: Path | None) -> Finding:
    about = "database writes"
    if path is None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'")
            [read_only] = cursor.fetchone()
        if read_only:
            return wrong(about, "The database server does not accept writes: it is a standby server or is set to "
                                "read-only.",
                         "Set NNIWEB_DATABASE_URL to the primary server.")
        return well(about, "It takes them.")
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=LOCK_SECONDS)) as ours:
            ours.isolation_level = None
            ours.execute("BEGIN IMMEDIATE")
            ours.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return wrong(about, f"Another process has locked the database for more than {LOCK_SECONDS:.0f} seconds.",
                         f"Find the process (fuser -v {path}). End it if it is not your server.")
        return wrong(about, "The database does not accept writes: "
                            f"{error}.", f"Check that the server's user may write {path} and its folder, and that the "
                                         "disk is neither full nor mounted read-only.")
    return well(about, "It takes them.")


def not_looked_at(about: str) -> Finding:
    return unknown(about, "Not checked, because the database has a problem. Solve that problem first.")
