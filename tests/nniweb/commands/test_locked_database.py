"""Commands while the database takes nothing."""

import sqlite3
from pathlib import Path

import pytest
from django.core import management
from django.db import OperationalError

from nniweb.command_line import program


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command fails as Django does where another program holds SQLite's lock."""
    path = tmp_path / "db.sqlite3"

    def execute(arguments: list[str]) -> None:
        try:
            with sqlite3.connect(path, timeout=0) as second:
                second.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise OperationalError(str(error)) from error

    first = sqlite3.connect(path)
    first.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(management, "execute_from_command_line", execute)
    yield
    first.close()


def test_a_locked_database_is_told_in_a_sentence(locked: None) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(["manage.py", "launch", "config.yml"])
    assert str(caught.value).startswith("manage.py launch: the database cannot be used now (database is locked). ")
    assert "again" in str(caught.value)


def test_the_traceback_is_shown_to_whoever_asks_for_it(locked: None) -> None:
    with pytest.raises(OperationalError):
        program.main(["manage.py", "launch", "config.yml", "--traceback"])
