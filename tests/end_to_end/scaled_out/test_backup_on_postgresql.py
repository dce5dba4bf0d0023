"""Backups of an installation on PostgreSQL: by pg_dump, with the files of the data folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer


def clusters(server: RunningServer) -> set[str]:
    return {cluster["name"] for cluster in server.get_all("clusters/")}


def add_cluster(server: RunningServer, name: str) -> None:
    server.post("clusters/", {"name": name, "platform": "scripted", "settings": {}})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_was_backed_up_comes_back_and_what_was_there_is_put_aside(
        postgresql: PostgresqlServer, make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server({"NNIWEB_DATABASE_URL": postgresql.new_database()}).start()
    add_cluster(server, "before")
    backup = tmp_path / "backup.tar.gz"
    server.manage("backup", "--with-keys", str(backup))
    add_cluster(server, "after")
    server.stop()
    refused = server.manage("restore", str(backup), check=False)
    assert (refused.returncode, "use --force" in refused.stderr) == (1, True)
    server.manage("restore", "--force", str(backup))
    [aside] = [path for path in tmp_path.iterdir() if "before-restore" in path.name]
    assert (aside / "database.dump").stat().st_size > 0
    assert (aside / "keys" / "installation").read_text() == (server.data_folder / "keys/installation").read_text()
    server.start()
    assert "before" in clusters(server)
    assert "after" not in clusters(server)


@pytest.mark.slow
def test_without_postgresqls_programs_a_backup_says_what_to_install(
        postgresql: PostgresqlServer, make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    server = make_server({"NNIWEB_DATABASE_URL": postgresql.new_database(), "PATH": str(empty)})
    done = server.manage("backup", str(tmp_path / "backup.tar.gz"), check=False)
    assert (done.returncode, "Install PostgreSQL's client programs" in done.stderr) == (1, True)
    assert sorted(os.listdir(tmp_path)) == ["data", "empty"], "nothing half done is left"
