"""The workers of one run of the tests migrate their databases once: the first one does, the others copy the rows.

On SQLite alone; for PostgreSQL ``tests.on_postgresql`` makes a template.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from nniweb.management.commands import migrate
from tests.end_to_end import prepared_installation

_patch = pytest.MonkeyPatch()
_migrate = migrate.Command.handle


def _migrate_once(command: migrate.Command, *arguments: Any, **options: Any) -> None:
    folder = os.environ.get(prepared_installation.FOLDER)
    if folder is None or connection.vendor != "sqlite":
        _migrate(command, *arguments, **options)
        return
    template = Path(folder) / prepared_installation.MIGRATED
    with prepared_installation.alone(Path(folder)):
        is_there = template.exists()
        if not is_there:
            _migrate(command, *arguments, **options)
        connection.ensure_connection()
        kept = sqlite3.connect(template)
        try:
            source, target = (kept, connection.connection) if is_there else (connection.connection, kept)
            source.backup(target)
        finally:
            kept.close()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """Before the databases are made."""
    _patch.setattr(migrate.Command, "handle", _migrate_once)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """When they are made: from then on the command is itself again."""
    _patch.undo()
