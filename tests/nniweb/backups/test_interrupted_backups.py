"""A backup that was interrupted, at whatever moment, goes on from there, and is a backup like any other."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from nniweb.backups import archive, database, segments, taking
from nniweb.backups.archive import BackupWriter, unpack
from nniweb.backups.taking import take
from nniweb.backups.unfinished import OLDEST, Unfinished
from nniweb.experiments.models import User
from nniweb.storage.backup_places import known_backups

NOW = datetime(2027, 5, 1, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]
_SMALL = 100_000
_WRITE = f"""
import sys
from pathlib import Path
from nniweb.backups import segments
from nniweb.backups.archive import BackupWriter
segments.SEGMENT = {_SMALL}
end = segments.Segments.end_if_full
def told(self):
    end(self)
    print(self.tell(), flush=True)
segments.Segments.end_if_full = told
folder = Path(sys.argv[1])
writer = BackupWriter(folder / "backup.tar.gz", folder / "partial")
writer.add(folder / "database", "database.dump", is_fixed=True)
for number in range(20):
    writer.add(folder / f"file{{number}}", f"files/{{number}}")
print("all", flush=True)
sys.stdin.read()
"""


def some_bytes(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


# --- the file ----------------------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    """Name in the backup -> file."""
    found = {"database.dump": tmp_path / "database"}
    found["database.dump"].write_bytes(some_bytes(777_777, 1))
    for number in range(20):
        found[f"files/{number}"] = tmp_path / f"file{number}"
        found[f"files/{number}"].write_bytes(some_bytes(number * 9_000, number))
    (tmp_path / "partial").mkdir()
    return found


def finish_and_check(folder: Path, sources: dict[str, Path], least_before: int = 0) -> None:
    writer = BackupWriter(folder / "backup.tar.gz", folder / "partial")
    assert writer.packed_before >= least_before
    for name, source in sources.items():
        writer.add(source, name, is_fixed=name == "database.dump")
    writer.finish({})
    (folder / "unpacked").mkdir()
    assert set(unpack(folder / "backup.tar.gz", folder / "unpacked")["members"]) == set(sources)
    for name, source in sources.items():
        assert (folder / "unpacked" / name).read_bytes() == source.read_bytes(), name


@pytest.mark.parametrize("at", [0, 1, 300_000, 700_000, 1_200_000, 2_000_000])
def test_a_writer_that_was_killed_is_gone_on_with_where_its_last_segment_ended(
        tmp_path: Path, sources: dict[str, Path], at: int) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITE, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() == "all" or int(line) >= at:
                break
        os.kill(child.pid, signal.SIGKILL)
    assert not (tmp_path / "backup.tar.gz").exists()
    finish_and_check(tmp_path, sources, least_before=max(0, min(at, 700_000) - 2 * _SMALL))


def interrupted(tmp_path: Path, sources: dict[str, Path], monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(segments, "SEGMENT", _SMALL)
    writer = BackupWriter(tmp_path / "backup.tar.gz", tmp_path / "partial")
    for name, source in list(sources.items())[:count]:
        writer.add(source, name, is_fixed=name == "database.dump")
    writer.leave()


def test_what_was_added_is_not_read_again(tmp_path: Path, sources: dict[str, Path],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(tmp_path, sources, monkeypatch, 15)
    writer = BackupWriter(tmp_path / "backup.tar.gz", tmp_path / "partial")
    assert [name for name in sources if writer.has(name)] == list(sources)[:15]
    for name in list(sources)[:15]:
        writer.add(Path("/nowhere"), name)
    assert writer.gone == []
    writer.leave()
    finish_and_check(tmp_path, sources)


@pytest.mark.parametrize("file", ["draft", "journal"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_what_a_power_cut_has_spoilt_is_written_again(tmp_path: Path, sources: dict[str, Path], file: str, damage: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(tmp_path, sources, monkeypatch, 10)
    path = tmp_path / "partial" / file
    content = path.read_bytes()
    half = len(content) // 2
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:half] + (b"" if damage == "cut" else b"\xff\x00" + content[half + 2:]))
    finish_and_check(tmp_path, sources)


def test_another_file_in_place_of_the_one_that_was_being_added_is_refused(
        tmp_path: Path, sources: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT", _SMALL)
    writer = BackupWriter(tmp_path / "backup.tar.gz", tmp_path / "partial")

    class Full(Exception):
        pass

    def read(self: object, count: int = -1) -> bytes:
        piece: bytes = real(self, count)
        if counted.pop():
            raise Full
        return piece

    real, counted = archive._Counted.read, [True] + [False] * 20
    with monkeypatch.context() as patch:
        patch.setattr(archive._Counted, "read", read)
        with pytest.raises(Full):
            writer.add(sources["database.dump"], "database.dump", is_fixed=True)
    writer.leave()
    writer = BackupWriter(tmp_path / "backup.tar.gz", tmp_path / "partial")
    assert writer.packed_before > _SMALL
    with pytest.raises(AssertionError, match="is not the file that was being added"):
        writer.add(sources["files/3"], "database.dump", is_fixed=True)


# --- all of it ---------------------------------------------------------------------------------


class KilledHere(BaseException):
    """In place of the KILL that ends a process."""


@pytest.fixture
def data(tmp_path: Path, settings: LazySettings, admin: User) -> Path:
    settings.DATA_FOLDER = tmp_path / "data"
    for number in range(4):
        file = tmp_path / "data" / "files" / "trials" / str(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(some_bytes(2 * _SMALL, number))
    return tmp_path / "data"


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The database's copies that were made."""
    made: list[Path] = []
    real = database.copy_to

    def copy_to(path: Path, *more: Any) -> None:
        made.append(path)
        real(path, *more)

    monkeypatch.setattr(database, "copy_to", copy_to)
    monkeypatch.setattr(segments, "SEGMENT", _SMALL)
    return made


def interrupt(path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, at: str = "files/trials/2",
              now: datetime = NOW) -> None:
    real = BackupWriter.add

    def add(self: BackupWriter, source: Path, name: str, *more: Any, **others: Any) -> None:
        if name == at:
            raise error
        real(self, source, name, *more, **others)

    with monkeypatch.context() as patch:
        patch.setattr(BackupWriter, "add", add)
        with pytest.raises(type(error)):
            take(path, now, goes_on=True)


@pytest.mark.django_db(transaction=True)
def test_the_same_command_goes_on_and_copies_neither_database_nor_files_again(
        data: Path, tmp_path: Path, copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    interrupt(path, monkeypatch, KilledHere())
    folder = Unfinished(path).folder
    assert folder in known_backups(), "nobody may name it as code"
    assert folder.stat().st_mode & 0o777 == 0o700
    User.objects.create_user("later")
    said: list[str] = []
    opened: list[str] = []
    real = BackupWriter.add
    monkeypatch.setattr(BackupWriter, "add", lambda self, source, name, *more, **others: (
        opened.append(name), real(self, source, name, *more, **others)))
    assert take(path, NOW + timedelta(hours=1), goes_on=True, say=said.append) == []
    assert len(copies) == 1
    assert opened == ["files/trials/2", "files/trials/3"]
    assert said[0].startswith("A backup that was interrupted is continued: the database as it was at "
                              "2027-05-01 00:00:00 UTC is copied, and 0.")
    (tmp_path / "unpacked").mkdir()
    manifest = unpack(path, tmp_path / "unpacked")
    assert manifest["taken_at"] == NOW.isoformat(), "of the database's copy"
    assert set(manifest["members"]) == {database.member_name(), *(f"files/trials/{number}" for number in range(4))}
    assert not folder.exists()
    assert known_backups() == [path]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("why", ["old", "of the future", "other parts", "other keys", "no copy"])
def test_what_does_not_fit_is_made_anew(why: str, data: Path, tmp_path: Path, copies: list[Path],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    interrupt(path, monkeypatch, KilledHere())
    now, parts = NOW + timedelta(minutes=1), taking.USUALLY
    if why == "old":
        now = NOW + OLDEST + timedelta(seconds=1)
    elif why == "of the future":
        now = NOW - timedelta(seconds=1)
    elif why == "other parts":
        parts = (taking.DATABASE, taking.CLUSTERS)
    elif why == "other keys":
        monkeypatch.setattr(taking, "seal_key_marks", lambda: ["another"])
    else:
        (Unfinished(path).folder / "about.json").write_text("{")
    take(path, now, parts, goes_on=True)
    assert len(copies) == 2
    (tmp_path / "unpacked").mkdir()
    assert unpack(path, tmp_path / "unpacked")["taken_at"] == now.isoformat()


@pytest.mark.django_db(transaction=True)
def test_on_a_full_disk_the_command_says_what_is_left_and_goes_on_later(
        data: Path, tmp_path: Path, copies: list[Path], monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "backup.tar.gz"
    real = segments._flush

    def full(file: Any) -> None:
        real(file)
        if file.tell() > 2 * _SMALL:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segments, "_flush", full)
        with pytest.raises(CommandError, match="No space left on device") as refused:
            call_command("backup", str(path))
    folder = Unfinished(path).folder
    assert f"What is done of it is in {folder}. Within 24 hours the same command goes on" in str(refused.value)
    call_command("backup", str(path))
    assert "A backup that was interrupted is continued" in capsys.readouterr().out
    assert len(copies) == 1
    (tmp_path / "unpacked").mkdir()
    unpack(path, tmp_path / "unpacked")


@pytest.mark.django_db(transaction=True)
def test_anew_removes_what_was_left(data: Path, tmp_path: Path, copies: list[Path],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    interrupt(path, monkeypatch, KilledHere(), now=datetime.now(UTC))
    call_command("backup", "--anew", str(path))
    assert len(copies) == 2


@pytest.mark.django_db(transaction=True)
def test_a_copy_of_the_database_that_was_interrupted_leaves_nothing(data: Path, tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"

    def copy_to(path: Path, *_: Any) -> None:
        path.write_bytes(b"half")
        raise database.CannotCopy("The database cannot be copied.")

    monkeypatch.setattr(database, "copy_to", copy_to)
    with pytest.raises(database.CannotCopy):
        take(path, NOW, goes_on=True)
    assert not Unfinished(path).folder.exists()


@pytest.mark.django_db(transaction=True)
def test_two_backups_to_one_file_are_not_mixed(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "backup.tar.gz"
    with Unfinished(path), pytest.raises(CommandError, match="Another process is writing a backup to"):
        call_command("backup", str(path))
