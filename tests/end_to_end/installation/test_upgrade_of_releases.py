"""The installation of each release is brought over to this version: nothing is lost, and its experiments go on.

The assets, and how they were made, are in tests/upgrade_assets. The keeper of that release runs their running trial.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from nniweb import __version__
from tests.end_to_end import prepared_installation
from tests.end_to_end.running_server import ANSWER_PATIENCE, RunningServer
from tests.end_to_end.running_server import ROOT as ROOT_OF_CHECKOUT
from tests.nniweb import database_schema
from tests.upgrade_assets.unpacked_asset import ASSETS, DATABASE, PASSWORD, RELEASES, SECRET, unpack

#: What differs without being lost: the table of changes itself, and what Django derives from the models.
DERIVED = ("django_migrations", "django_content_type", "auth_permission", "sqlite_sequence")
LOOK = """
from nniweb.experiments.clusters.editing import settings_secrets
from nniweb.experiments.models import Cluster, User
from trainingservice.platforms import load_platform
farm = Cluster.objects.get(name="farm")
print(sorted(settings_secrets(farm, load_platform(farm.platform)).values()))
print(sorted(f"{user.username} {user.role}" for user in User.objects.all()))
"""


def rows(database: Path, tables: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Every row of every table, the columns that are named in ``tables`` (default: those there are)."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = tables or {name: [column[1] for column in opened.execute(f"PRAGMA table_info({name})")]
                             for name in names if name not in DERIVED}
        return {name: (of, sorted(opened.execute(f"SELECT {quoted(of)} FROM {name}").fetchall(), key=repr))
                for name, of in columns.items()}


def quoted(columns: list[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def sign_in(server: RunningServer, name: str) -> str:
    """The page that a person sees after signing in with the password."""
    session = requests.Session()
    session.trust_env = False
    page = session.get(f"{server.url}/sign-in/", timeout=ANSWER_PATIENCE)
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text))
    answer = session.post(f"{server.url}/sign-in/", timeout=ANSWER_PATIENCE, headers={"Referer": server.url}, data={
        "username": name, "password": PASSWORD, "csrfmiddlewaretoken": token})
    return answer.text if not answer.url.startswith(f"{server.url}/sign-in/") else ""


def trials_of(server: RunningServer, name: str) -> list[Any]:
    [experiment] = [row for row in server.get_all("experiments/") if row["name"] == name]
    return server.get_all(f"experiments/{experiment['id']}/trials/")


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old_keeper(release: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The release's keeper, at work in the folder of its running trial: the server is away."""
    data = unpack(release, tmp_path)
    [job_file] = [path for path in data.glob("clusters/*/trials/*/*/job.json")
                  if not (path.parent / "journal.jsonl").exists()]
    [bundle] = data.glob("clusters/*/agent/keeper-*.pyz")
    keeper = subprocess.Popen([sys.executable, str(bundle), "run"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "NNI_KEEPER_FOLDER": str(job_file.parent),
                                   "NNI_TRIAL_JOB_ID": json.loads(job_file.read_text())["job_name"]})
    try:
        yield keeper
    finally:
        keeper.kill()
        keeper.wait()


def tell(folder: Path, trial: int, *orders: str) -> None:
    for number, order in enumerate(orders):
        (folder / "orders" / "new").write_text(order)
        (folder / "orders" / "new").rename(folder / "orders" / f"{trial}-{number}")


def test_each_release_has_an_asset_and_a_page_that_says_how_it_was_made() -> None:
    assert "0.1.0" in RELEASES
    for release in RELEASES:
        assert (ASSETS / release / "README.md").is_file()
        assert sum(path.stat().st_size for path in (ASSETS / release).iterdir()) < 300_000


@pytest.mark.slow
def test_no_row_of_a_release_is_lost_or_altered(release: str, make_server: Callable[..., RunningServer],
                                                tmp_path: Path) -> None:
    server = make_server()
    database = unpack(release, tmp_path) / DATABASE
    before = rows(database)
    said = server.manage("migrate").stdout
    assert before == rows(database, {name: of for name, (of, _) in before.items()})
    [backup] = (server.data_folder / "backups").iterdir()
    assert str(backup) in said
    assert f"The database now has the version of NNI Web {__version__}." in said
    # the single migrations have made what the squashed one makes of an empty database
    prepared_installation.put_into(tmp_path / "new")
    upgraded = database_schema.of_sqlite(database)
    assert {("column", "experiments_trial", "rerun_of_id"),
            ("index", "experiments_trial", "trials_unfinished")} <= upgraded.keys()
    assert upgraded == database_schema.of_sqlite(tmp_path / "new" / DATABASE)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_installation_of_a_release_goes_on_with_its_people_secrets_and_trials(
        old_keeper: subprocess.Popen[bytes], make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server()
    server.wait_until(lambda: list(server.data_folder.glob("clusters/*/trials/*/*/trial.json")), what="the trial runs")
    server.start()
    assert server.manage("shell", "-v", "0", "-c", LOOK).stdout.splitlines() == [
        f"[{SECRET!r}]", "['admin admin', 'ann member', 'bob viewer']"]
    assert [name for name in ("admin", "ann", "bob") if not sign_in(server, name)] == []
    assert [trial["status"] for trial in trials_of(server, "many")[:3]] == ["SUCCEEDED", "FAILED", "RUNNING"]
    [kept] = server.get(f"trials/{trials_of(server, 'many')[0]['id']}/files/")["results"]
    assert kept["name"] == "result.txt"
    # the trial of the old keeper goes on and ends; then those that waited have their turn, under keepers of today
    tell(tmp_path / "many", 2, "metric 0.25", "final 0.5", "end")
    assert old_keeper.wait(120) == 0
    for folder, trial in (("many", 3), ("many", 4), ("one", 0)):
        tell(tmp_path / folder, trial, "metric 0.125", "final 0.75", "end")
    for name in ("many", "one"):
        [experiment] = [row for row in server.get_all("experiments/") if row["name"] == name]
        server.wait_for_experiment(experiment["id"], patience=120)
    many = trials_of(server, "many")
    assert [trial["status"] for trial in many] == ["SUCCEEDED", "FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    assert [trial["final_number"] for trial in many] == [1.0, None, 0.5, 0.75, 0.75]
    numbers = [row["number"] for row in server.get_all(f"trials/{many[2]['id']}/metrics/", kind="PERIODICAL")]
    assert numbers == [0.25]
    assert [trial["status"] for trial in trials_of(server, "one")] == ["SUCCEEDED"]
    assert len(list(server.data_folder.glob("clusters/*/agent/keeper-*.pyz"))) == 2


@pytest.mark.slow
def test_a_backup_that_a_release_made_is_restored_and_brought_over(
        release: str, make_server: Callable[..., RunningServer]) -> None:
    server = make_server()
    server.manage("restore", str(ASSETS / release / "backup.tar.gz"))
    before = rows(server.data_folder / DATABASE)
    server.start()
    after = rows(server.data_folder / DATABASE)
    for table in ("experiments_user", "experiments_trial", "experiments_metric", "experiments_clustermetadata"):
        assert (table, len(before[table][1])) == (table, len(after[table][1]))
    assert SECRET in server.manage("shell", "-v", "0", "-c", LOOK).stdout
    assert sign_in(server, "ann")


@pytest.mark.slow
def test_of_processes_that_start_at_once_one_changes_the_database_and_the_others_wait(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server()
    unpack(RELEASES[0], tmp_path)
    started = [subprocess.Popen([*server.program, "migrate"], env=server.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
    texts = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], texts
    assert sum("is backed up to" in text for text in texts) == 1
    assert len(list((server.data_folder / "backups").iterdir())) == 1


@pytest.mark.slow
def test_an_upgrade_that_fails_after_several_changes_leaves_every_table_as_it_was(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server()
    database = unpack(RELEASES[0], tmp_path) / DATABASE
    with closing(sqlite3.connect(database)) as opened, opened:  # the table of a later migration is there already
        opened.execute("CREATE TABLE experiments_experimentchange (id INTEGER)")
    before = schema(database)
    for command in (("migrate",), ("serve",)):
        failed = server.manage(*command, check=False)
        assert failed.returncode == 1, failed.stdout
        assert '"experiments_experimentchange" already exists' in failed.stderr
        assert "was not changed" in failed.stderr
        assert "Traceback" not in failed.stderr
    assert schema(database) == before
    assert list((server.data_folder / "backups").iterdir()) == []


#: The process is killed when all changes are made and nothing is committed.
KILLED_AT_ITS_END = """
import os, signal
from nniweb.experiments.sql import schema_version
schema_version.note_this_version = lambda: os.kill(os.getpid(), signal.SIGKILL)
from nniweb.command_line.program import main
main()
"""


@pytest.mark.slow
def test_an_upgrade_that_is_killed_leaves_every_table_as_it_was_and_the_next_one_is_whole(
        make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server()
    database = unpack(RELEASES[0], tmp_path) / DATABASE
    before = schema(database)
    killed = subprocess.run([sys.executable, "-c", KILLED_AT_ITS_END, "migrate"], cwd=ROOT_OF_CHECKOUT,
                            env=server.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                            check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with closing(sqlite3.connect(database)) as opened:  # as the next process does: what was not committed is dropped
        opened.execute("SELECT 1 FROM django_migrations").fetchone()
    assert schema(database) == before
    server.manage("migrate")
    assert versions(database) == [__version__]


@pytest.mark.slow
def test_versions_that_were_noted_among_djangos_migrations_have_a_table(make_server: Callable[..., RunningServer],
                                                                         tmp_path: Path) -> None:
    server = make_server()
    database = unpack(RELEASES[0], tmp_path) / DATABASE
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.executemany("INSERT INTO django_migrations (app, name, applied) VALUES ('nniweb', ?, ?)", [
            ("0.1.7", "2026-02-01 00:00:00"), ("0.1.6", "2026-01-01 00:00:00")])
    server.manage("migrate")
    assert versions(database) == ["0.1.6", "0.1.7", __version__]
    assert [row for row in schema(database) if row[0] == "nniweb"] == []


def versions(database: Path) -> list[str]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        return [version for (version,) in opened.execute("SELECT version FROM experiments_databaseversion ORDER BY id")]


def schema(database: Path) -> list[Any]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        return sorted(opened.execute("SELECT type, name, sql FROM sqlite_master"), key=repr) + sorted(
            opened.execute("SELECT app, name FROM django_migrations"))


@pytest.mark.slow
def test_what_was_before_an_upgrade_comes_back(make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server()
    database = unpack(RELEASES[0], tmp_path) / DATABASE
    before = rows(database)
    server.manage("migrate")
    [backup] = (server.data_folder / "backups").iterdir()
    keys = (server.data_folder / "keys" / "seal_keys").read_text()
    server.manage("restore", "--force", str(backup))
    columns, links = before["experiments_signinlink"]
    assert links
    assert rows(database) == before | {"experiments_signinlink": (columns, [])}, "no backup lets anybody in"
    assert (server.data_folder / "keys" / "seal_keys").read_text() == keys
    assert list(server.data_folder.glob("files/trials/*/*")), "only the database was exchanged"


#: A server whose version of the keepers' protocol is another one, as a later release's.
OF_ANOTHER_WIRE = """
from trialkeeper import contract
contract.PROTOCOL_VERSION = {version}
from nniweb.command_line.program import main
main()
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_keeper_that_ran_before_is_heard_by_the_next_protocol_and_waits_while_it_is_refused_by_the_one_after(
        old_keeper: subprocess.Popen[bytes], make_server: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = make_server()

    def numbers() -> list[float]:
        trial = trials_of(server, "many")[2]
        return [row["number"] for row in server.get_all(f"trials/{trial['id']}/metrics/", kind="PERIODICAL")]

    def message() -> str:
        return str(trials_of(server, "many")[2]["message"])

    tell(tmp_path / "many", 2, "metric 0.25")
    server.start(program=("-c", OF_ANOTHER_WIRE.format(version=2)))
    server.wait_until(lambda: numbers() == [0.25], what="the next version hears the keeper")
    assert message() == ""
    server.stop()
    server.start(program=("-c", OF_ANOTHER_WIRE.format(version=3)))
    server.wait_until(lambda: "This server understands version 2 and 3" in message(), what="the trial's page says so")
    (tmp_path / "many" / "orders" / "2-1").write_text("metric 0.5")
    [journal] = [path for path in server.data_folder.glob("clusters/*/trials/*/*/journal.jsonl")
                 if '"0.25"' in path.read_text()]
    server.wait_until(lambda: '"0.5"' in journal.read_text(), what="the keeper has written it down")
    assert numbers() == [0.25]
    assert trials_of(server, "many")[2]["status"] == "RUNNING"
    server.stop()
    server.start()
    server.wait_until(lambda: numbers() == [0.25, 0.5], what="what waited has come")
    assert message() == ""
    (tmp_path / "many" / "orders" / "2-2").write_text("final 0.75")
    (tmp_path / "many" / "orders" / "2-3").write_text("end")
    assert old_keeper.wait(120) == 0
    server.wait_until(lambda: trials_of(server, "many")[2]["status"] == "SUCCEEDED")
