"""Which parts of an installation a backup holds, and what its manifest says of them."""

import sqlite3
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.contrib.sessions.models import Session as OldSession
from django.core.management import call_command
from django.utils import timezone

from nniweb import __version__
from nniweb.backups import database
from nniweb.backups.archive import unpack
from nniweb.backups.taking import DATABASE, take
from nniweb.experiments.access.sessions import SessionStore
from nniweb.experiments.models import (
    Cluster,
    ClusterMetadata,
    Experiment,
    Session,
    SignInAttempt,
    SignInLink,
    TensorBoard,
    User,
)
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.secrets.sealing import seal
from nniweb.storage.data_folder import new_seal_key
from nniweb.tensorboard.tickets import make_ticket
from nniweb.upgrades import backup_before

pytestmark = pytest.mark.django_db(transaction=True)
FILES = ("files/code/a.tar.gz", "files/trials/t/result", "checkpoints/e/1", "clusters/c/hosts",
         "clusters/c/trials/t/stdout", "keys/seal_keys", "backups/before-0.2.0-20270101-000000.tar.gz", "static/x")
KEPT = {"files/code/a.tar.gz", "files/trials/t/result", "checkpoints/e/1", "clusters/c/hosts"}


@pytest.fixture
def data(tmp_path: Path, settings: LazySettings, admin: User) -> Path:
    settings.DATA_FOLDER = tmp_path / "data"
    for name in FILES:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new_seal_key() if name == "keys/seal_keys" else name)
    return tmp_path / "data"


def members(path: Path) -> set[str]:
    with tarfile.open(path) as tar:
        return {name for name in tar.getnames() if name != "manifest.json"}


def test_code_kept_files_and_checkpoints_are_in_it_and_keys_only_when_asked_for(
        data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("backup", str(tmp_path / "usual.tar.gz"))
    assert members(tmp_path / "usual.tar.gz") == KEPT | {database.member_name()}
    assert f"does not include the keys. Keep a copy of {data / 'keys'}" in capsys.readouterr().out
    call_command("backup", "--with-keys", str(tmp_path / "all.tar.gz"))
    assert members(tmp_path / "all.tar.gz") == KEPT | {database.member_name(), "keys/seal_keys"}
    assert "includes the keys" in capsys.readouterr().out


@pytest.mark.usefixtures("data")
def test_the_database_alone_can_be_backed_up(tmp_path: Path) -> None:
    take(tmp_path / "database.tar.gz", timezone.now(), [DATABASE])
    assert members(tmp_path / "database.tar.gz") == {database.member_name()}


@pytest.mark.usefixtures("data")
def test_its_manifest_names_the_version_and_the_secrets_but_does_not_hold_them(tmp_path: Path) -> None:
    farm = Cluster.objects.create(name="farm", platform="remote")
    ClusterMetadata.objects.create(cluster=farm, key="password", sealed_value=seal("a very secret word"))
    ClusterMetadata.objects.create(cluster=farm, key="user", value="nobody")
    take(tmp_path / "backup.tar.gz", timezone.now())
    (tmp_path / "unpacked").mkdir()
    manifest = unpack(tmp_path / "backup.tar.gz", tmp_path / "unpacked")
    assert (manifest["version"], manifest["secrets"]) == (__version__, ["cluster farm: password"])
    for path in (tmp_path / "unpacked").rglob("*"):
        assert path.is_dir() or b"a very secret word" not in path.read_bytes()


def text_of(copy: Path) -> bytes:
    """All that is in a copy of the database, in clear."""
    if database.member_name() == database.SQLITE:
        return copy.read_bytes()
    return subprocess.run(["pg_restore", "--file", "-", str(copy)], check=True, capture_output=True).stdout


def rows_that_let_in(admin: User, experiment: Experiment) -> list[str]:
    """Somebody is signed in, as this version and an older one has it, begins a single sign-on, has a link, and looks at
    a TensorBoard. What of it is in the database.
    """
    sessions = []
    for number in range(60):  # more than a page has room for
        session = SessionStore()
        session.update({"_auth_user_id": str(admin.pk), "_state_provider_xyz": f"state {number}"})
        session.save()
        sessions.append(session.session_key)
        older = OldSession(session_key=f"older{number:035}", session_data="of before", expire_date=timezone.now())
        older.save(force_insert=True)
        sessions.append(older.session_key)
    for key in sessions[:80]:  # what was removed leaves remains in SQLite's file
        SessionStore().delete(key)
        OldSession.objects.filter(session_key=key).delete()
    now = timezone.now()
    board = TensorBoard.objects.create(experiment=experiment, trials=[], created_at=now, used_at=now)
    ticket, link = make_ticket(board, admin, sessions[-2]), SignInLink.make(admin)
    SignInAttempt.objects.create(mark="the mark of a name", address="192.0.2.1", at=now)
    return [*sessions, *map(hash_of, [*sessions, ticket, link]), "the mark of a name"]


@pytest.mark.usefixtures("data")
def test_it_signs_nobody_in_not_even_a_copy_that_is_made_before_an_upgrade(
        admin: User, make_experiment: Callable[..., Experiment], tmp_path: Path) -> None:
    let_in = rows_that_let_in(admin, make_experiment())
    before_upgrade = backup_before.make(timezone.now(), str)
    assert before_upgrade is not None
    take(tmp_path / "backup.tar.gz", timezone.now())
    for number, path in enumerate((tmp_path / "backup.tar.gz", before_upgrade)):
        (unpacked := tmp_path / f"unpacked{number}").mkdir()
        unpack(path, unpacked)
        text = text_of(unpacked / database.member_name())
        assert b"ada" in text, "people are in it"
        assert [word for word in let_in if word.encode() in text] == []
    assert Session.objects.exists(), "whoever is signed in here stays so"


def test_what_an_older_version_has_put_into_a_backup_is_not_put_back(admin: User, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        copy.execute("CREATE TABLE django_session (session_key TEXT)")
        copy.execute("INSERT INTO django_session VALUES ('a live session key')")
        copy.commit()
    database.empty_not_kept(tmp_path / "copy")
    assert b"a live session key" not in (tmp_path / "copy").read_bytes()
