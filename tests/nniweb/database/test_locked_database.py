"""A process that starts while another one changes the database for long."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from django.db import connections

from nniweb.database.sqlite.base import DatabaseWrapper


def test_that_sqlite_has_json_is_known_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "locked.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE one (two)")
        other.execute("BEGIN EXCLUSIVE")
        settings = {**connections["default"].settings_dict, "NAME": str(path), "OPTIONS": {"timeout": 0}}
        wrapper = DatabaseWrapper(settings)
        try:
            assert wrapper.features.supports_json_field
        finally:
            wrapper.close()
