"""Kept files and code archives are on the disk when they are acknowledged, and damaged ones are found when read."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage, storages
from django.utils import timezone

from nniweb.experiments.downloads.kept_files import KeptFileDamaged, content_of
from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import Attempt, TrialFile
from nniweb.experiments.models.account import hash_of
from nniweb.keeperapi.job_files import keep_file
from nniweb.storage.durable_storage import DurableFileSystemStorage


class Flushes:
    """What was flushed, and which names were given, in order; files by the number of their inode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[tuple[str, int]] = []
        fsync, replace = os.fsync, os.replace

        def watched_fsync(descriptor: int) -> None:
            fsync(descriptor)
            self.order.append(("flush", os.fstat(descriptor).st_ino))

        def watched_replace(source: str, target: str) -> None:
            self.order.append(("name", os.stat(source).st_ino))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", watched_fsync)
        monkeypatch.setattr(os, "replace", watched_replace)


def number(path: str | Path) -> int:
    return os.stat(path).st_ino


def test_a_file_is_flushed_before_it_has_its_name_and_its_folders_after_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = Flushes(monkeypatch)
    storage = DurableFileSystemStorage(location=str(tmp_path))
    assert storage.save("trials/abc/file", ContentFile(b"content")) == "trials/abc/file"
    path = tmp_path / "trials" / "abc" / "file"
    assert path.read_bytes() == b"content"
    assert flushes.order[:3] == [("flush", number(path)), ("name", number(path)), ("flush", number(path.parent))]
    assert {("flush", number(tmp_path / "trials")), ("flush", number(tmp_path))} <= set(flushes.order[3:])
    assert os.listdir(path.parent) == ["file"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        DurableFileSystemStorage(location=str(tmp_path)).save("trials/file", ContentFile(b"content"))
    assert os.listdir(tmp_path / "trials") == []


@pytest.fixture
def data_folder(settings: Any, tmp_path: Path) -> Path:
    settings.DATA_FOLDER = tmp_path / "data"
    settings.DATA_FOLDER.mkdir()
    settings.STORAGES = {**settings.STORAGES, "default": {
        **settings.STORAGES["default"], "OPTIONS": {"location": str(settings.DATA_FOLDER / "files")}}}
    return Path(settings.DATA_FOLDER)


@pytest.fixture
def kept(make_attempt: Callable[..., Attempt], data_folder: Path) -> TrialFile:
    keep_file(make_attempt().job_name, hash_of("token"), "model.bin", b"what was learnt")
    return TrialFile.objects.get()


def test_the_settings_name_the_storage_that_flushes(settings: Any) -> None:
    assert isinstance(storages.create_storage(settings.STORAGES["default"]), DurableFileSystemStorage)


@pytest.mark.django_db(transaction=True)
def test_a_kept_file_is_flushed_before_its_keeper_is_told(make_attempt: Callable[..., Attempt], data_folder: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = Flushes(monkeypatch)
    keep_file(make_attempt().job_name, hash_of("token"), "model.bin", b"what was learnt")
    kept = TrialFile.objects.get()
    assert ("flush", number(default_storage.path(kept.storage_path))) in flushes.order
    assert content_of(kept) == b"what was learnt"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("damage", [b"", b"what was learned", b"WHAT was learnt"])
def test_a_kept_file_that_is_not_what_it_was_is_an_error(kept: TrialFile, damage: bytes) -> None:
    Path(default_storage.path(kept.storage_path)).write_bytes(damage)
    with pytest.raises(KeptFileDamaged, match=r"model\.bin was damaged .*run the trial again"):
        content_of(kept)


@pytest.mark.django_db(transaction=True)
def test_of_a_file_from_before_hashes_were_kept_the_size_is_compared(kept: TrialFile) -> None:
    kept.sha256 = ""
    assert content_of(kept) == b"what was learnt"
    Path(default_storage.path(kept.storage_path)).write_bytes(b"")
    with pytest.raises(KeptFileDamaged):
        content_of(kept)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "trial.py").write_text("print('hello')\n")
    return folder


@pytest.mark.django_db
@pytest.mark.parametrize("damage", ["cut off", "other bytes"])
def test_launching_the_same_code_again_makes_a_damaged_archive_whole(code: Path, data_folder: Path,
                                                                     damage: str) -> None:
    archive = code_archives.keep_folder(code, timezone.now())
    path = Path(default_storage.path(archive.storage_path))
    whole = path.read_bytes()
    path.write_bytes(b"" if damage == "cut off" else whole[:-4] + b"\0\0\0\0")
    assert code_archives.keep_folder(code, timezone.now()).pk == archive.pk
    assert path.read_bytes() == whole


@pytest.mark.django_db
def test_a_trial_that_needs_a_damaged_archive_gets_one_that_is_made_again_from_its_folder(
        code: Path, data_folder: Path, make_experiment: Callable[..., Any]) -> None:
    archive = code_archives.keep_folder(code, timezone.now())
    make_experiment(code=archive, code_folder=str(code))
    path = Path(default_storage.path(archive.storage_path))
    whole = path.read_bytes()
    path.write_bytes(b"")
    assert code_archives.local_path(archive).read_bytes() == whole


@pytest.mark.django_db
def test_a_damaged_archive_whose_folder_has_changed_since_stays_as_it_is_and_is_told_once(
        code: Path, data_folder: Path, make_experiment: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    archive = code_archives.keep_folder(code, timezone.now())
    make_experiment(code=archive, code_folder=str(code))
    (code / "trial.py").write_text("print('changed')\n")
    Path(default_storage.path(archive.storage_path)).unlink()
    for _ in range(3):
        assert not code_archives.local_path(archive).exists()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "launch the experiments that need it again" in caplog.text


@pytest.mark.django_db
def test_a_damaged_archive_is_not_given_up_while_the_disk_is_full(
        code: Path, data_folder: Path, make_experiment: Callable[..., Any], monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    archive = code_archives.keep_folder(code, timezone.now())
    make_experiment(code=archive, code_folder=str(code))
    path = Path(default_storage.path(archive.storage_path))
    whole = path.read_bytes()
    path.write_bytes(b"")
    mkstemp = tempfile.mkstemp

    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(code_archives, "_given_up", set())
    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert code_archives.local_path(archive).read_bytes() == b""
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    assert code_archives.local_path(archive).read_bytes() == whole
