"""The file of a backup is whole or is refused with a sentence."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from nniweb.backups.archive import MANIFEST, BackupWriter, NotABackup, unpack


def written(folder: Path) -> Path:
    (folder / "some").write_bytes(b"x" * 300_000)
    (folder / "other").write_bytes(b"")
    writer = BackupWriter(folder / "backup.tar.gz")
    writer.add(folder / "some", "keys/some")
    writer.add(folder / "other", "files/a/other")
    writer.add(folder / "never", "files/never")
    assert writer.gone == ["files/never"]
    assert not (folder / "backup.tar.gz").exists(), "it is not there before it is whole"
    writer.finish({"installation": "abc"})
    return folder / "backup.tar.gz"


def goal(folder: Path) -> Path:
    (folder / "goal").mkdir()
    return folder / "goal"


def test_what_was_put_in_comes_out_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    folder = goal(tmp_path)
    assert unpack(path, folder)["installation"] == "abc"
    assert (folder / "keys" / "some").read_bytes() == b"x" * 300_000
    assert (folder / "files" / "a" / "other").read_bytes() == b""
    assert (folder / "keys" / "some").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9])
def test_a_part_of_a_backup_is_refused(tmp_path: Path, kept: float) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(NotABackup, match="only a part"):
        unpack(path, goal(tmp_path))


def made_by_hand(folder: Path, members: dict[str, bytes], manifest: dict) -> Path:
    path = folder / "made.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**members, MANIFEST: json.dumps(manifest).encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(("members", "manifest", "said"), [
    ({"keys/a": b"changed"}, {"format": 1, "members": {"keys/a": "00"}}, "is damaged: keys/a"),
    ({}, {"format": 1, "members": {"keys/a": "00"}}, "is damaged: keys/a"),
    ({"keys/a": b""}, {"format": 1, "members": {}}, "contains more than its manifest says"),
    ({}, {"format": 3, "members": {}}, "newer version"),
    ({"../a": b""}, {"format": 1, "members": {}}, "points outside of the data folder"),
    ({"/a": b""}, {"format": 1, "members": {}}, "points outside of the data folder"),
])
def test_what_is_not_as_its_manifest_says_is_refused(tmp_path: Path, members: dict, manifest: dict, said: str) -> None:
    with pytest.raises(NotABackup, match=said):
        unpack(made_by_hand(tmp_path, members, manifest), goal(tmp_path))
    assert not (tmp_path / "a").exists()


def test_a_file_that_grows_while_it_is_read_is_kept_as_it_was(tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    growing.write_bytes(b"1234")
    writer = BackupWriter(tmp_path / "backup.tar.gz")
    real = writer._tar.addfile

    def addfile(info: tarfile.TarInfo, content: object) -> None:
        with open(growing, "ab") as file:
            file.write(b"5678")
        real(info, content)  # type: ignore[arg-type]

    writer._tar.addfile = addfile  # type: ignore[method-assign]
    writer.add(growing, "files/growing")
    writer._tar.addfile = real  # type: ignore[method-assign]
    writer.finish({})
    unpack(tmp_path / "backup.tar.gz", folder := goal(tmp_path))
    assert (folder / "files" / "growing").read_bytes() == b"1234"
