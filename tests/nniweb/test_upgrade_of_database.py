"""A database is brought to the program's version whole or not at all, after a backup; a newer one is left alone."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from nniweb import __version__
from nniweb.backups import database
from nniweb.backups.archive import unpack
from nniweb.experiments.models import DatabaseVersion, User
from nniweb.experiments.sql.schema_version import (
    is_of_this_version,
    last_version,
    missing_migrations,
    note_this_version,
    unknown_migrations,
)
from nniweb.upgrades import backup_before
from nniweb.upgrades.bringing_up_to_date import CannotUpgrade, bring_up_to_date
from nniweb.upgrades.refusal import too_new_or_unknown

#: Not a squashed one, which is noted beside those that it stands for.
LATEST = ("SELECT name FROM django_migrations WHERE app = 'experiments' AND name NOT LIKE '%squashed%' "
          "ORDER BY id DESC LIMIT 1")


def made_by(app: str, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)",
                       [app, name, timezone.now()])


def changed_by(version: str) -> None:
    DatabaseVersion.objects.create(version=version, at=timezone.now())


def forget_the_last_change() -> None:
    """As an older version has it."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM django_migrations WHERE app = 'experiments' AND name = ({LATEST})")


def changes() -> set[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT app, name FROM django_migrations")
        return set(cursor.fetchall())


@pytest.fixture
def data(tmp_path: Path, settings: LazySettings) -> Path:
    settings.DATA_FOLDER = tmp_path / "data"
    return tmp_path / "data"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def older(transactional_db: None, data: Path, admin: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database in use whose last change was not made, as its table says, and fails at its end; then as it was."""
    def fail() -> None:
        raise RuntimeError("something failed after the changes")

    monkeypatch.setattr("nniweb.upgrades.bringing_up_to_date.note_this_version", fail)
    before = changes()
    forget_the_last_change()
    yield
    for app, name in before - changes():
        made_by(app, name)


def test_a_database_of_this_version_is_known_by_the_names_of_the_changes(db: None) -> None:
    assert (is_of_this_version(), missing_migrations(), unknown_migrations()) == (True, 0, [])
    forget_the_last_change()
    assert (is_of_this_version(), missing_migrations(), unknown_migrations()) == (False, 1, [])


def test_the_last_version_that_changed_the_database_is_noted_in_it(db: None) -> None:
    DatabaseVersion.objects.all().delete()
    assert last_version() == "", "as of 0.1.0, which noted none"
    for version in ("0.9.0", __version__, "0.10.0"):
        changed_by(version)
    assert last_version() == "0.10.0"
    note_this_version()
    assert last_version() == __version__
    assert is_of_this_version(), "a note is no change"


def test_versions_that_were_rows_of_djangos_table_are_moved_in_their_order_and_back(db: None) -> None:
    migration = import_module("nniweb.experiments.migrations.0031_database_versions")
    here = SimpleNamespace(connection=connection)
    DatabaseVersion.objects.all().delete()
    for version in ("0.10.0", "0.9.0"):
        made_by("nniweb", version)
    migration.move_here(apps, here)
    assert list(DatabaseVersion.objects.order_by("pk").values_list("version", flat=True)) == ["0.10.0", "0.9.0"]
    assert [change for change in changes() if change[0] == "nniweb"] == []
    assert last_version() == "0.9.0"
    changed_by("0.10.0")
    migration.move_back(apps, here)
    assert {change for change in changes() if change[0] == "nniweb"} == {("nniweb", "0.9.0"), ("nniweb", "0.10.0")}
    DatabaseVersion.objects.all().delete()
    migration.move_here(apps, here)
    assert last_version() == "0.10.0", "which was the last before as well"


def test_a_newer_database_without_a_table_of_versions_is_of_another_version(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE experiments_databaseversion")
    made_by("experiments", "9999_of_next_year")
    assert "another version of NNI Web" in too_new_or_unknown()


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "--check"], ["migrate", "experiments", "0011"],
                                     ["worker"], ["token", "ada"], ["backup", "file"],
                                     ["experiments", "list"], ["rotate-keys"]])
def test_a_newer_database_is_refused_with_the_version_that_made_it_and_what_to_do(
        admin: User, data: Path, command: list[str]) -> None:
    made_by("experiments", "9999_of_next_year")
    changed_by("7.1.0")
    (data / "backups").mkdir(parents=True)
    (data / "backups" / "before-7.1.0-20270101-000000.tar.gz").touch()
    with pytest.raises(CommandError) as refused:
        call_command(*command)
    for words in ("NNI Web 7.1.0", "9999_of_next_year", "Nothing was changed", "Install NNI Web 7.1.0 again",
                  "before-7.1.0-20270101-000000.tar.gz --force"):
        assert words in str(refused.value)
    assert too_new_or_unknown() == str(refused.value), "what a web process ends with"


@pytest.mark.usefixtures("older")
def test_a_change_that_fails_leaves_the_database_as_it_was(data: Path, said: list[str]) -> None:
    before = changes()
    with pytest.raises(CannotUpgrade, match="was not changed"):
        bring_up_to_date(said.append, is_server=False)
    assert changes() == before
    assert "backed up" in said[0]
    assert re.search(r"will take about \d+ s, and up to [\d.,]+ MB", said[0])
    assert re.search(r"1 change\(s\) of the database \([\d.,]+ MB\) are made in one transaction: \d{4}_\w+\.", said[1])
    assert list((data / "backups").iterdir()) == [], "what is still there needs no copy"


@pytest.mark.usefixtures("older")
def test_the_backup_before_an_upgrade_holds_the_database_alone(data: Path, said: list[str], tmp_path: Path) -> None:
    path = backup_before.make(timezone.now(), said.append)
    assert path is not None
    assert [str(path)] == re.findall(r"to (\S+) before", said[0])
    assert path.name.startswith(f"before-{__version__}-")
    (tmp_path / "unpacked").mkdir()
    manifest = unpack(path, tmp_path / "unpacked")
    assert (manifest["holds"], set(manifest["members"])) == (["database"], {database.member_name()})


def no_room(path: Path) -> SimpleNamespace:
    return SimpleNamespace(free=1000)


def no_program(path: Path, say: object) -> None:
    raise database.CannotCopy("pg_dump is needed and was not found on PATH.")


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize(("planted", "why"), [
    (("shutil.disk_usage", no_room), "Free disk space"),
    (("nniweb.backups.database.copy_to", no_program), "pg_dump is needed"),
])
def test_without_a_backup_nothing_is_changed_and_the_choice_is_named(
        monkeypatch: pytest.MonkeyPatch, said: list[str], planted: tuple, why: str) -> None:
    monkeypatch.setattr(*planted)
    before = changes()
    with pytest.raises(CannotUpgrade, match=why) as refused:
        bring_up_to_date(said.append, is_server=False)
    assert "NNIWEB_UPGRADE_BACKUP=0" in str(refused.value)
    assert changes() == before


@pytest.mark.usefixtures("older")
def test_what_starts_that_were_killed_have_left_does_not_pile_up(data: Path, said: list[str]) -> None:
    (data / "backups").mkdir(parents=True)
    for minute in range(5):
        (data / "backups" / f"before-{__version__}-20260101-00{minute:02}00.tar.gz").touch()
    copied = data / "backups" / f".before-{__version__}-20260101-000500.tar.gz.partial"
    copied.mkdir(mode=0o700)
    (copied / "database").write_bytes(b"a part of it")
    path = backup_before.make(timezone.now(), said.append)
    assert path is not None
    assert sorted(one.name for one in (data / "backups").iterdir()) == [
        *(f"before-{__version__}-20260101-000{minute}00.tar.gz" for minute in (2, 3, 4)), path.name]


@pytest.mark.usefixtures("older")
def test_whoever_has_a_backup_of_his_own_says_so(data: Path, said: list[str], settings: LazySettings) -> None:
    settings.UPGRADE_BACKUP = False
    with pytest.raises(CannotUpgrade, match="was not changed"):
        bring_up_to_date(said.append, is_server=False)
    assert not (data / "backups").exists()


def test_a_database_that_nobody_used_is_not_backed_up(db: None, data: Path, said: list[str]) -> None:
    assert backup_before.make(timezone.now(), said.append) is None
    assert (said, data.exists()) == ([], False)


def test_the_newest_backups_are_kept(data: Path) -> None:
    (data / "backups").mkdir(parents=True)
    names = [f"before-0.{number}.0-202701{number:02}-000000.tar.gz" for number in range(8, 12)]
    for name in [*names, "monday.tar.gz"]:
        (data / "backups" / name).touch()
    backup_before.remove_old_ones()
    assert sorted(path.name for path in (data / "backups").iterdir()) == sorted([*names[1:], "monday.tar.gz"])


def test_every_change_can_be_made_within_one_transaction() -> None:
    migrations = MigrationLoader(None).disk_migrations
    assert [name for name, migration in migrations.items() if not migration.atomic] == []
