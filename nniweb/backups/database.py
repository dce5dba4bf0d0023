"""The database's part of a backup: a consistent copy while others go on writing, and how it is put back."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from nniweb.backups.progress import Progress, Say, nothing
from nniweb.experiments.models import User
from nniweb.experiments.sql.schema_version import VERSIONS

SQLITE, POSTGRESQL = "database.sqlite3", "database.dump"
#: What the names of all tables of ours and of Django begin with.
_OUR_TABLES = ("experiments_", "django_", "auth_")
#: Whose rows let somebody in for a while, or count who tried to come in: in no backup, and not put back from those of
#: older versions. The states of single sign-on are in sessions. ``django_session`` is of older versions.
NOT_KEPT = ("django_session", "experiments_session", "experiments_signinlink", "experiments_signinattempt",
            "experiments_tensorboardticket")


#: Steps of SQLite's machine between two looks at how far it is.
_STEPS = 1_000_000


class CannotCopy(Exception):
    """The database could not be copied or put back; the sentence says why."""


def member_name() -> str:
    """The name in a backup of a copy of the present kind of database."""
    return POSTGRESQL if connection.vendor == "postgresql" else SQLITE


def copy_to(path: Path, say: Say = nothing) -> None:
    """Copy the database as it is at one moment, without the rows of NOT_KEPT, to a file that does not exist yet.

    ``say`` is told how far it is. Raises CannotCopy.
    """
    progress = Progress("Copying the database", _bytes_to_copy(), say)
    if connection.vendor == "postgresql":
        dumped = DumpedTables()
        _run("pg_dump", ["--format=custom", "--no-owner", "--file", str(path),
                         *(f"--exclude-table-data={table}" for table in NOT_KEPT)],
             look=lambda: progress.at(dumped.bytes()))
        return
    source = f"file:{settings.DATABASES['default']['NAME']}?mode=ro"
    try:
        # In WAL mode writers go on meanwhile, and this reads what was committed when it began. Not a copy of pages:
        # those have remains of rows that were removed, or moved.
        with closing(sqlite3.connect(source, uri=True, timeout=20)) as ours:
            ours.set_progress_handler(lambda: _note_size(path, progress), _STEPS)
            ours.execute("VACUUM INTO ?", [str(path)])
    except sqlite3.Error as error:
        raise CannotCopy(f"The database cannot be copied: {error}.") from None
    empty_not_kept(path)


def _bytes_to_copy() -> float:
    """What the copy is expected to take while it is made. Raises CannotCopy."""
    try:
        if connection.vendor == "postgresql":
            return sum(of_table for of_table, _ in _tables().values())
        with connection.cursor() as cursor:
            cursor.execute("SELECT (page_count - freelist_count) * page_size"
                           " FROM pragma_page_count, pragma_page_size, pragma_freelist_count")
            return float(cursor.fetchone()[0])
    except DatabaseError as error:
        raise CannotCopy(f"The database cannot be used: {error}") from None


def _note_size(path: Path, progress: Progress) -> None:
    """For SQLite, which goes on where nothing is returned."""
    with contextlib.suppress(OSError):
        progress.at(path.stat().st_size)


def _tables() -> dict[int, tuple[float, float]]:
    """PostgreSQL's: identity -> bytes and rows, as it estimates them. Raises DatabaseError."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT oid, pg_table_size(oid), reltuples FROM pg_class WHERE relkind IN ('r', 'p')"
                       " AND relnamespace = current_schema()::regnamespace AND relname <> ALL(%s)", [list(NOT_KEPT)])
        return {oid: (float(size), float(rows)) for oid, size, rows in cursor.fetchall()}


class DumpedTables:
    """How much of the tables pg_dump has read, by what the server says of it. One table is read after the other."""

    def __init__(self) -> None:
        self._tables = _tables()
        self._done: dict[int, float] = {}
        self._last = 0

    def bytes(self) -> float:
        """As the tables are stored. What it was last where the server cannot be asked."""
        with contextlib.suppress(DatabaseError):
            with connection.cursor() as cursor:
                cursor.execute("SELECT relid, tuples_processed FROM pg_stat_progress_copy"
                               " WHERE datname = current_database() AND command = 'COPY TO'")
                found = cursor.fetchall()
            for oid, rows in found:
                size, of_all = self._tables.get(oid, (0.0, 0.0))
                if self._last not in (0, oid):
                    self._done[self._last] = self._tables.get(self._last, (0.0, 0.0))[0]
                self._done[oid] = size * min(1.0, rows / of_all) if of_all > 0 else 0.0
                self._last = oid
        return sum(self._done.values())


def empty_not_kept(path: Path) -> None:
    """Remove the rows of NOT_KEPT from a SQLite file that nobody uses. Raises CannotCopy."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            copy.execute("PRAGMA secure_delete = ON")  # overwritten, not only unlinked
            there = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in NOT_KEPT:
                if table in there:
                    copy.execute(f'DELETE FROM "{table}"')
    except sqlite3.Error as error:
        raise CannotCopy(f"Sessions cannot be removed from the copy of the database: {error}.") from None


def put_back_postgresql(path: Path) -> None:
    """Replace what the PostgreSQL database holds, in one transaction. Raises CannotCopy."""
    # tables that a newer version made are in no dump of an older one, and what refers to them would hold up the others
    ours = sorted(name for name in connection.introspection.table_names() if name.startswith(_OUR_TABLES))
    connection.close()
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        script, drops, wanted = (Path(scratch, name) for name in ("dump.sql", "drops.sql", "list"))
        wanted.write_text(re.sub(rf"(?m)^.* TABLE DATA \S+ ({'|'.join(NOT_KEPT)}) .*$\n?", "",
                                 _run("pg_restore", ["--list", str(path)])))
        _run("pg_restore", ["--clean", "--if-exists", "--no-owner", "--use-list", str(wanted), "--file", str(script),
                            str(path)])
        drops.write_text("".join(f'DROP TABLE IF EXISTS "{name}" CASCADE;\n' for name in ours))
        _run("psql", ["--no-psqlrc", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1",
                      "--file", str(drops), "--file", str(script)])


def check_sqlite(path: Path) -> None:
    """Raises CannotCopy where a copy is no whole database."""
    if damage := damage_of_sqlite(path):
        raise CannotCopy(f"The database in the backup is damaged: {damage}.")


def damage_of_sqlite(path: Path, *, in_use: bool = False, patience: float = math.inf) -> str:
    """What is wrong with a SQLite file, "" where it is whole or where ``patience`` (seconds) ends before it is known.

    ``in_use``: others may be writing to it; then tables are looked at and not each index, which takes minutes.
    """
    # SQLite's log beside the file is how it shows that somebody has it open, or fell over while he had
    alone = not in_use or not path.with_name(f"{path.name}-wal").exists()
    gives_up_at, uri = time.monotonic() + patience, path.absolute().as_uri()
    try:
        with closing(sqlite3.connect(f"{uri}?mode=ro{'&immutable=1' if alone else ''}", uri=True)) as database:
            database.set_progress_handler(lambda: time.monotonic() > gives_up_at, 100_000)
            [(verdict,)] = database.execute(f"PRAGMA {'quick' if in_use else 'integrity'}_check(1)").fetchall()
    except sqlite3.Error as error:
        return "" if "interrupted" in str(error) else str(error)
    return "" if verdict == "ok" else " ".join(str(verdict).split())


def holds_something() -> bool:
    """Whether somebody has used the present database."""
    if connection.vendor == "sqlite":
        return Path(settings.DATABASES["default"]["NAME"]).exists()
    try:
        return "experiments_user" in connection.introspection.table_names()
    except DatabaseError as error:
        raise CannotCopy(f"The database cannot be used: {error}") from None


def is_used() -> bool:
    """Whether there is anything in the present database that somebody could miss. Raises CannotCopy."""
    try:
        # of a database of any version: no column is asked for
        return "experiments_user" in connection.introspection.table_names() and User.objects.exists()
    except DatabaseError as error:
        raise CannotCopy(f"The database cannot be used: {error}") from None


def size() -> int:
    """Bytes that the present database takes. Raises DatabaseError, OSError."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0])
    path = Path(settings.DATABASES["default"]["NAME"])
    return sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.exists())


def migrations() -> list[str]:
    """What was done to the present database, as ``app.name``."""
    return sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations()
                  if app != VERSIONS)


def _run(program: str, options: Sequence[str], look: Callable[[], object] | None = None) -> str:
    """What the program writes. ``look`` is called each second while it runs. Raises CannotCopy."""
    if shutil.which(program) is None:
        raise CannotCopy(f"{program} is needed but was not found on PATH. Install PostgreSQL's client programs in the "
                         "server's version or a newer one.")
    database = settings.DATABASES["default"]
    variables = {"PGHOST": database["HOST"], "PGPORT": database["PORT"], "PGUSER": database["USER"],
                 "PGPASSWORD": database["PASSWORD"], "PGDATABASE": database["NAME"]}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items() if value}}
    with subprocess.Popen([program, "--no-password", *options], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        try:
            while True:
                try:
                    written, errors = run.communicate(timeout=1.0)
                    break
                except subprocess.TimeoutExpired:
                    if look is not None:
                        look()
        except BaseException:
            run.kill()
            raise
    if run.returncode:
        raise CannotCopy(f"{program} ended with {run.returncode}: {errors.strip()[-500:]}")
    return written
