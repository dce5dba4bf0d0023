"""Which parts of an installation a backup holds, and what its manifest says of them."""

import tarfile
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.utils import timezone

from nniweb import __version__
from nniweb.backups import database
from nniweb.backups.archive import unpack
from nniweb.backups.taking import DATABASE, take
from nniweb.data_folder import new_seal_key
from nniweb.experiments.models import Cluster, ClusterMetadata, User
from nniweb.experiments.sealing import seal

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
    assert f"holds no keys. Keep a copy of {data / 'keys'}" in capsys.readouterr().out
    call_command("backup", "--with-keys", str(tmp_path / "all.tar.gz"))
    assert members(tmp_path / "all.tar.gz") == KEPT | {database.member_name(), "keys/seal_keys"}
    assert "holds the keys, too" in capsys.readouterr().out


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
