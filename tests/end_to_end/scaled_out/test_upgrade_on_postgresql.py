"""An upgrade on PostgreSQL: a dump first, all changes or none, a newer database refused, and the way back.

A backup of SQLite cannot be put into PostgreSQL, so the older database is one that was only migrated that far.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer

#: The last change of 0.1.0.
OLD = "0011_quotas"
USER = ("INSERT INTO experiments_user (password, is_superuser, username, first_name, last_name, email, is_staff, "
        "is_active, date_joined, role, local_users) "
        "VALUES ('', true, 'ann', '', '', '', true, true, now(), 'admin', '')")


@pytest.fixture
def older(postgresql: PostgresqlServer, make_server: Callable[..., RunningServer]) -> RunningServer:
    """An installation whose database is of an older version and was used."""
    postgresql.execute("DROP DATABASE IF EXISTS older")
    postgresql.execute("CREATE DATABASE older")
    server = make_server({"NNIWEB_DATABASE_URL": postgresql.url("older")})
    for app in ("auth", "contenttypes", "sessions"):
        server.manage("migrate", app, "-v", "0")
    server.manage("shell", "-v", "0", "--no-imports", "-c", "from tests.nniweb import single_migrations\n"
                  f"single_migrations.migrate(('experiments', {OLD!r}))")
    postgresql.execute(USER, "older")
    return server


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_database_is_dumped_changed_refused_by_an_older_program_and_put_back(
        postgresql: PostgresqlServer, older: RunningServer) -> None:
    # a change that cannot be made: the column of a later migration is there already
    postgresql.execute("ALTER TABLE experiments_experiment ADD COLUMN launch_key text", "older")
    failed = older.manage("migrate", check=False)
    assert (failed.returncode, "was not changed" in failed.stderr) == (1, True), failed.stderr
    assert "names_folders" not in columns(older, "experiments_user"), "the changes before it were taken back"
    postgresql.execute("ALTER TABLE experiments_experiment DROP COLUMN launch_key", "older")

    said = older.manage("migrate").stdout
    assert "is backed up to" in said
    assert "names_folders" in columns(older, "experiments_user")
    [backup] = (older.data_folder / "backups").iterdir()

    postgresql.execute("INSERT INTO django_migrations (app, name, applied) VALUES "
                       "('experiments', '9999_later', now())", "older")
    postgresql.execute("INSERT INTO experiments_databaseversion (version, at) VALUES ('7.1.0', now())", "older")
    postgresql.execute("CREATE TABLE experiments_later (id bigint PRIMARY KEY, user_id bigint REFERENCES "
                       "experiments_user (id))", "older")
    for command in ("migrate", "worker", "token"):
        refused = older.manage(command, *(["ann"] if command == "token" else []), check=False)
        assert (refused.returncode, "by NNI Web 7.1.0" in refused.stderr) == (1, True), refused.stderr

    older.manage("restore", "--force", str(backup))
    assert columns(older, "experiments_later") == [], "a table of the newer version is in nobody's way"
    assert "names_folders" not in columns(older, "experiments_user")
    older.start()
    assert older.manage("token", "ann").stdout.startswith("nniweb_")


@pytest.mark.slow
def test_without_pg_dump_nothing_is_changed_unless_the_operator_has_a_backup(older: RunningServer, tmp_path: Path,
                                                                             make_server: Callable[..., RunningServer]
                                                                             ) -> None:
    (tmp_path / "empty").mkdir()
    environment = {"NNIWEB_DATABASE_URL": older.environment["NNIWEB_DATABASE_URL"], "PATH": str(tmp_path / "empty")}
    refused = make_server(environment).manage("migrate", check=False)
    assert (refused.returncode, "pg_dump is needed" in refused.stderr, "NNIWEB_UPGRADE_BACKUP=0" in refused.stderr) == (
        1, True, True), refused.stderr
    assert "names_folders" not in columns(older, "experiments_user")
    make_server({**environment, "NNIWEB_UPGRADE_BACKUP": "0"}).manage("migrate")
    assert "names_folders" in columns(older, "experiments_user")
    assert [name for name in os.listdir(older.data_folder) if name == "backups" and
            os.listdir(older.data_folder / name)] == []


def columns(server: RunningServer, table: str) -> list[str]:
    code = ("from django.db import connection\nwith connection.cursor() as cursor:\n"
            " cursor.execute(\"SELECT column_name FROM information_schema.columns WHERE table_name = %s\", "
            f"[{table!r}])\n print(*[name for (name,) in cursor.fetchall()])")
    return server.manage("shell", "-v", "0", "-c", code).stdout.split()
