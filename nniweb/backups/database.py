"""The database's part of a backup: a consistent copy while others go on writing, and how it is put back."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

SQLITE, POSTGRESQL = "database.sqlite3", "database.dump"


class CannotCopy(Exception):
    """The database could not be copied or put back; the sentence says why."""


def member_name() -> str:
    """The name in a backup of a copy of the present kind of database."""
    return POSTGRESQL if connection.vendor == "postgresql" else SQLITE


def copy_to(path: Path) -> None:
    """Copy the whole database as it is at one moment. Raises CannotCopy."""
    if connection.vendor == "postgresql":
        _run("pg_dump", ["--format=custom", "--no-owner", "--file", str(path)])
        return
    source = f"file:{settings.DATABASES['default']['NAME']}?mode=ro"
    try:
        # one step: in WAL mode writers go on meanwhile, and this reads what was committed when it began
        with closing(sqlite3.connect(source, uri=True, timeout=20)) as ours, closing(sqlite3.connect(path)) as copy:
            ours.backup(copy)
    except sqlite3.Error as error:
        raise CannotCopy(f"The database cannot be copied: {error}.") from None


def put_back_postgresql(path: Path) -> None:
    """Replace what the PostgreSQL database holds, in one transaction. Raises CannotCopy."""
    connection.close()
    _run("pg_restore", ["--clean", "--if-exists", "--no-owner", "--single-transaction", "--dbname",
                        str(settings.DATABASES["default"]["NAME"]), str(path)])


def check_sqlite(path: Path) -> None:
    """Raises CannotCopy where a copy is no whole database."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            [(verdict,)] = database.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.Error as error:
        raise CannotCopy(f"The database in the backup cannot be read: {error}.") from None
    if verdict != "ok":
        raise CannotCopy(f"The database in the backup is damaged: {verdict}.")


def holds_something() -> bool:
    """Whether somebody has used the present database."""
    if connection.vendor == "sqlite":
        return Path(settings.DATABASES["default"]["NAME"]).exists()
    try:
        return "experiments_user" in connection.introspection.table_names()
    except DatabaseError as error:
        raise CannotCopy(f"The database cannot be used: {error}") from None


def migrations() -> list[str]:
    """What was done to the present database, as ``app.name``."""
    return sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations())


def _run(program: str, options: Sequence[str]) -> None:
    if shutil.which(program) is None:
        raise CannotCopy(f"{program} is needed and was not found on PATH. Install PostgreSQL's client programs, of the "
                         "server's version or newer.")
    database = settings.DATABASES["default"]
    variables = {"PGHOST": database["HOST"], "PGPORT": database["PORT"], "PGUSER": database["USER"],
                 "PGPASSWORD": database["PASSWORD"], "PGDATABASE": database["NAME"]}
    done = subprocess.run([program, "--no-password", *options], text=True, capture_output=True, check=False,
                          env={**os.environ, **{name: str(value) for name, value in variables.items() if value}})
    if done.returncode:
        raise CannotCopy(f"{program} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
