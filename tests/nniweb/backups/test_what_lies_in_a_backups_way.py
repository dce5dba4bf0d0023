"""What others have put where an unfinished backup lies, or have changed in it, neither harms nor gets into a backup."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from nniweb.backups import archive, database, unfinished
from nniweb.backups.archive import unpack
from nniweb.backups.database import CannotCopy
from nniweb.backups.taking import discard, take
from nniweb.backups.unfinished import InUse, Unfinished
from tests.nniweb.backups.test_interrupted_backups import NOW, KilledHere, copies, data, interrupt

__all__ = ["copies", "data"]
pytestmark = pytest.mark.django_db(transaction=True)


def a_link(folder: Path, elsewhere: Path) -> None:
    folder.symlink_to(elsewhere)


def a_folder_of_somebody_else(folder: Path, elsewhere: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: machines of their own, other users, small disks")
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)


def a_folder_that_others_may_fill(folder: Path, elsewhere: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def a_file(folder: Path, elsewhere: Path) -> None:
    folder.write_text("somebody's")


@pytest.mark.parametrize("put", [a_link, a_folder_of_somebody_else, a_folder_that_others_may_fill, a_file])
def test_what_somebody_else_has_put_in_its_way_is_neither_filled_nor_emptied(
        data: Path, tmp_path: Path, put: Callable[[Path, Path], None]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "about.json").write_text("somebody's")
    path = tmp_path / "backup.tar.gz"
    put(Unfinished(path).folder, elsewhere)
    before = sorted(tmp_path.iterdir())
    for try_it in (lambda: take(path, NOW, goes_on=True), lambda: take(path, NOW), lambda: discard(path)):
        with pytest.raises(CannotCopy, match=r"partial is no folder that a backup of this user has left"):
            try_it()
    assert sorted(tmp_path.iterdir()) == before
    assert [file.read_text() for file in elsewhere.iterdir()] == ["somebody's"]


def test_where_all_folders_have_one_owner_and_mode_a_backup_goes_on(
        data: Path, tmp_path: Path, copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a share that gives all files to one user."""
    path = tmp_path / "backup.tar.gz"
    interrupt(path, monkeypatch, KilledHere())
    Unfinished(path).folder.chmod(0o777)

    class OfAShare(unfinished.TemporaryDirectory):  # type: ignore[type-arg]
        def __enter__(self) -> str:
            os.chmod(self.name, 0o777)
            return self.name

    monkeypatch.setattr(unfinished, "TemporaryDirectory", OfAShare)
    take(path, NOW, goes_on=True)
    assert len(copies) == 1


def changed_copy(folder: Path) -> None:
    """A part of the copy may be packed already as it was."""
    if connection.vendor == "postgresql":  # a dump
        with open(folder / "database", "ab") as dump:
            dump.write(b"looked at by hand")
        return
    with sqlite3.connect(folder / "database") as copy:
        copy.execute("CREATE TABLE looked_at_by_hand (x)")


def no_copy(folder: Path) -> None:
    (folder / "database").unlink()


def text_about(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "about.json").write_text(text) and None


def another_time(folder: Path) -> None:
    about = json.loads((folder / "about.json").read_text())
    (folder / "about.json").write_text(json.dumps({**about, "taken_at": "2027-05-01"}))


def a_folder_in_it(folder: Path) -> None:
    no_copy(folder)
    (folder / "notes" / "of somebody").mkdir(parents=True)


@pytest.mark.parametrize("change", [changed_copy, no_copy, another_time, a_folder_in_it, text_about("[]"),
                                    text_about("null"), text_about("{}")])
def test_what_was_changed_by_hand_is_made_anew(change: Callable[[Path], None], data: Path, tmp_path: Path,
                                               copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    interrupt(path, monkeypatch, KilledHere())
    change(Unfinished(path).folder)
    take(path, NOW, goes_on=True)
    assert len(copies) == 2
    assert not Unfinished(path).folder.exists()
    (tmp_path / "unpacked").mkdir()
    unpack(path, tmp_path / "unpacked")


@pytest.mark.parametrize("line", ["null", "{}", '{"packed": 1}', '{"packed": [], "plain": 1, "members": 2, "inside": 3}'
                                  ])
def test_a_journal_that_was_edited_counts_as_far_as_it_can_be_read(
        line: str, data: Path, tmp_path: Path, copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    interrupt(path, monkeypatch, KilledHere())
    journal = Unfinished(path).folder / "journal"
    journal.write_text(line + "\n" + journal.read_text())
    take(path, NOW, goes_on=True)
    (tmp_path / "unpacked").mkdir()
    assert database.member_name() in unpack(path, tmp_path / "unpacked")["members"]


def test_a_backup_that_is_done_is_not_gone_on_with_although_its_rest_was_not_removed(
        data: Path, tmp_path: Path, copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    removed: list[Path] = []
    real = Path.unlink

    def unlink(self: Path, *more: Any, **others: Any) -> None:
        if self.parent == Unfinished(path).folder and path.exists():
            if removed:
                raise KilledHere
            removed.append(self)
        real(self, *more, **others)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(KilledHere):
            take(path, NOW, goes_on=True)
    assert path.exists()
    assert Unfinished(path).folder.exists()
    take(path, NOW, goes_on=True)
    assert len(copies) == 2
    assert not Unfinished(path).folder.exists()


def test_a_backup_that_has_its_name_is_not_gone_on_with(
        data: Path, tmp_path: Path, copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    real = archive.put_in_place

    def put_in_place(draft: str, goal: str) -> None:
        real(draft, goal)
        raise KilledHere

    with monkeypatch.context() as patch:
        patch.setattr(archive, "put_in_place", put_in_place)
        with pytest.raises(KilledHere):
            take(path, NOW, goes_on=True)
    take(path, NOW, goes_on=True)
    assert len(copies) == 2, "of the database as it is now"


def test_who_waited_for_a_backup_that_ended_does_not_write_where_a_third_one_does(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backup.tar.gz"
    real, ended = fcntl.flock, []

    def flock(descriptor: int, how: int) -> None:
        if not ended:  # the first backup ends, and a third one begins
            ended.append(True)
            shutil.rmtree(Unfinished(path).folder)
            Unfinished(path).folder.mkdir(mode=0o700)
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Unfinished(path) as second:
        with pytest.raises(InUse), Unfinished(path):
            pass
        assert stat.S_ISDIR(second.folder.lstat().st_mode)


def test_a_folder_in_the_place_of_the_file_is_told_before_anything_is_copied(
        data: Path, tmp_path: Path, copies: list[Path]) -> None:
    (tmp_path / "backups").mkdir()
    with pytest.raises(CommandError, match=r"it is a folder: name the file in it"):
        call_command("backup", str(tmp_path / "backups"))
    assert copies == []
    assert not Unfinished(tmp_path / "backups").folder.exists()
