"""Checkpoints may lie in any Django storage, which may be away: then they are sent, fetched and removed later."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest
from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage
from django.utils import timezone

from nniweb.experiments.checkpoints import chunk_files
from nniweb.experiments.checkpoints.chunk_files import StorageFailed, chunk_path
from nniweb.experiments.checkpoints.stored_checkpoints import missing_chunks
from nniweb.experiments.checks import checkpoint_storage_can_be_made
from nniweb.experiments.downloads.checkpoint_download import CheckpointDamaged, checkpoint_pieces, manifest_of
from nniweb.experiments.models import Checkpoint, CheckpointChunk
from nniweb.worker.housekeeping.upkeep import Upkeep
from tests.nniweb.keeperapi.test_checkpoint_calls import retry_of
from tests.nniweb.keeperapi.test_keeper_application import call
from tests.nniweb.worker.housekeeping.test_old_checkpoints import application, save_some, upkeep
from trialkeeper import chunk_pack

__all__ = ["application", "upkeep"]  # fixtures

pytestmark = pytest.mark.django_db(transaction=True)


class Elsewhere(Storage):
    """A storage that is no folder and may be away."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.is_away = False

    def exists(self, name: str) -> bool:
        return name in self._answer()

    def delete(self, name: str) -> None:
        self._answer().pop(name, None)

    def _open(self, name: str, mode: str = "rb") -> ContentFile[bytes]:
        if name not in self._answer():
            raise FileNotFoundError(name)
        return ContentFile(self.files[name], name)

    def _save(self, name: str, content: File[bytes]) -> str:
        self._answer()[name] = content.read()
        return name

    def _answer(self) -> dict[str, bytes]:
        if self.is_away:
            raise ConnectionResetOfLibrary("the storage does not answer")
        return self.files


class ConnectionResetOfLibrary(Exception):
    """As libraries of storages raise: no OSError."""


@pytest.fixture(autouse=True)
def storage(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    storage = Elsewhere()
    monkeypatch.setattr(chunk_files, "checkpoint_storage", storage)
    return storage


def test_checkpoints_are_kept_given_out_and_removed_there(application, make_attempt, upkeep, storage: Elsewhere
                                                          ) -> None:
    attempt = make_attempt()
    ids = save_some(application, attempt, (b"base", b"one"), (b"base", b"two"), (b"base", b"three"))
    assert upkeep().remove_old_checkpoints()
    experiment = attempt.trial.experiment.public_id
    names = set(storage.files)
    assert {name.rpartition("/")[2] for name in names if "manifests" in name} == set(ids[1:])
    assert len([name for name in names if "chunks" in name]) == CheckpointChunk.objects.count() == 3
    checkpoint = Checkpoint.objects.get(manifest=ids[2])
    archive = b"".join(checkpoint_pieces(checkpoint, manifest_of(checkpoint)))
    with tarfile.open(fileobj=io.BytesIO(archive)) as read:
        assert read.getnames() == ["step-3/model", "step-3/model/0.bin", "step-3/model/1.bin"]
    again, sha256 = retry_of(attempt), hashlib.sha256(b"three").hexdigest()
    assert call(application, "GET", f"trials/{again.job_name}/chunks/{sha256}")[2] == b"three"
    storage.files[chunk_path(experiment, sha256)] = b"damage"
    assert call(application, "GET", f"trials/{again.job_name}/chunks/{sha256}")[0] == 404


def test_while_it_is_away_keepers_and_the_upkeep_try_again_later(application, make_attempt, upkeep, storage: Elsewhere
                                                                 ) -> None:
    attempt = make_attempt()
    save_some(application, attempt, (b"one",), (b"two",), (b"three",))
    storage.is_away = True
    sha256 = hashlib.sha256(b"four").hexdigest()
    status, headers, body = call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", b"four")
    assert (status, headers["retry-after"], json.loads(body)["error"]) == (503, "30", "busy")
    assert not upkeep().remove_old_checkpoints()
    assert Checkpoint.objects.count() == 3, "nothing was forgotten that still lies there"
    with pytest.raises(CheckpointDamaged, match="cannot be read at the moment"):
        manifest_of(Checkpoint.objects.latest("pk"))
    storage.is_away = False
    assert call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", b"four")[0] == 200
    assert call(application, "POST", f"trials/{attempt.job_name}/chunks/several", chunk_pack.pack([b"a"]))[0] == 405
    assert upkeep().remove_old_checkpoints()
    assert Checkpoint.objects.count() == 2


def test_a_chunk_that_was_removed_before_it_went_away_is_asked_for_again(
        application, make_attempt, upkeep, storage: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = make_attempt()
    save_some(application, attempt, (b"one", b"two", b"three"), (b"four",), (b"five",))
    remove = chunk_files.checkpoint_storage.delete

    def remove_one(name: str) -> None:
        remove(name)
        storage.is_away = True

    monkeypatch.setattr(storage, "delete", remove_one)
    assert not upkeep().remove_old_checkpoints()
    storage.is_away = False
    hashes = {hashlib.sha256(content).hexdigest() for content in (b"one", b"two", b"three", b"four", b"five")}
    gone = {sha256 for sha256 in hashes if not any(name.endswith(sha256) for name in storage.files)}
    assert len(gone) == 1
    assert gone <= set(missing_chunks(attempt.trial.experiment, sorted(hashes), timezone.now()))


def test_while_it_is_away_the_upkeep_asks_it_once_a_minute(application, make_attempt, storage: Elsewhere, caplog
                                                           ) -> None:
    save_some(application, make_attempt(), (b"one",), (b"two",), (b"three",))
    clock = 0.0
    upkeep = Upkeep(monotonic=lambda: clock, sleep=lambda seconds: None)
    storage.is_away = True
    for clock in (0.0, 1.0, 2.0, 59.0, 61.0, 62.0):  # noqa: B007  # the upkeep reads it
        assert not upkeep.remove_old_checkpoints()
    assert len([said for said in caplog.records if "are removed later" in said.message]) == 2
    storage.is_away = False
    assert not upkeep.remove_old_checkpoints()
    clock = 122.0
    assert upkeep.remove_old_checkpoints()
    assert Checkpoint.objects.count() == 2


def test_an_error_of_any_library_is_one_of_the_storage(storage: Elsewhere) -> None:
    storage.is_away = True
    for ask in (chunk_files.check_storage, lambda: chunk_files.remove_file("a"),
                lambda: chunk_files.content_of("a", ""), lambda: list(chunk_files.pieces_of("a"))):
        with pytest.raises(StorageFailed, match="the storage does not answer"):
            ask()


def test_a_class_that_is_none_is_said_by_the_check(settings) -> None:
    assert checkpoint_storage_can_be_made() == []
    settings.STORAGES = {**settings.STORAGES, "checkpoints": {
        "BACKEND": "django.core.files.storage.InMemoryStorage", "OPTIONS": {"bucket": "nni"}}}
    [found] = checkpoint_storage_can_be_made()
    assert "NNIWEB_CHECKPOINT_STORAGE" in found.msg
    assert "bucket" in found.msg
