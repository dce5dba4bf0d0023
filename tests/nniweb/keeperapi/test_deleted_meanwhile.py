"""What a keeper sends while its experiment is deleted: it is refused, and nothing of it stays on the disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage, default_storage
from django.utils import timezone

from nniweb.experiments.checkpoints import stored_checkpoints
from nniweb.experiments.models import Attempt, CheckpointChunk, Experiment, TrialFile
from nniweb.experiments.retention.removal import Pace
from nniweb.keeperapi import checkpoint_work
from nniweb.keeperapi.application import KeeperApplication
from nniweb.worker.housekeeping.remove_rows import remove_rows_of
from tests.nniweb.keeperapi.test_keeper_application import application, call
from trainingservice.testing.keeper_protocol import checkpoint
from trialkeeper import chunk_pack

__all__ = ["application"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = b"weights" * 20_000


@pytest.fixture(autouse=True)
def data(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_FOLDER = tmp_path
    settings.STORAGES = {**settings.STORAGES, "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path / "files")}}}
    return tmp_path


def delete(experiment: Experiment, *, with_last_row: bool) -> None:
    """As a person and then the worker do it. ``with_last_row``: the platform has nothing of it left, either."""
    mark_deleted(experiment)
    assert remove_rows_of(experiment, timezone.now(), Pace(sleep=lambda seconds: None), lambda: False)
    if with_last_row:
        Experiment.objects.get(pk=experiment.pk).delete()


def mark_deleted(experiment: Experiment) -> None:
    Experiment.objects.filter(pk=experiment.pk).update(deleted_at=timezone.now())


def before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, happens: Callable[[], None]) -> None:
    """Have something happen right before the function is called for the first time."""
    real = getattr(owner, name)

    def called(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        happens()
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, called)


def files_of(data: Path) -> list[Path]:
    return [path for path in (data / "files").rglob("*") if path.name not in ("checkpoints", "trials")]


@pytest.mark.parametrize("with_last_row", [False, True])
@pytest.mark.parametrize("moment", ["keep_file", "checkpoints_of", "write"])
def test_of_a_chunk_nothing_stays(application: KeeperApplication, make_attempt: Any, monkeypatch: pytest.MonkeyPatch,
                                  data: Path, moment: str, with_last_row: bool) -> None:
    attempt = make_attempt()
    owner = {"keep_file": stored_checkpoints, "checkpoints_of": checkpoint_work,
             "write": stored_checkpoints._transactions}[moment]
    before(monkeypatch, owner, moment, lambda: delete(attempt.trial.experiment, with_last_row=with_last_row))
    sha256 = hashlib.sha256(LARGE).hexdigest()
    status, _, body = call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", LARGE)
    assert (status, json.loads(body)["error"]) == (410, "gone")
    assert files_of(data) == []
    assert not CheckpointChunk.objects.exists() or not with_last_row


@pytest.mark.parametrize("with_last_row", [False, True])
def test_of_small_chunks_that_come_together_nothing_stays(
        application: KeeperApplication, make_attempt: Any, monkeypatch: pytest.MonkeyPatch, data: Path,
        with_last_row: bool) -> None:
    attempt = make_attempt()
    before(monkeypatch, stored_checkpoints, "keep_small_files",
           lambda: delete(attempt.trial.experiment, with_last_row=with_last_row))
    status, _, body = call(application, "POST", f"trials/{attempt.job_name}/chunks/several",
                           chunk_pack.pack([b"some", b"more"]))
    assert (status, json.loads(body)["error"]) == (410, "gone")
    assert files_of(data) == []


@pytest.mark.parametrize("with_last_row", [False, True])
@pytest.mark.parametrize("moment", ["keep_file", "checkpoint_row"])
def test_of_a_manifest_nothing_stays(application: KeeperApplication, make_attempt: Any,
                                     monkeypatch: pytest.MonkeyPatch, data: Path, moment: str, with_last_row: bool
                                     ) -> None:
    attempt = make_attempt()
    checkpoint_id, manifest, chunks = checkpoint(b"weights")
    for sha256, content in chunks.items():
        assert call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", content)[0] == 200
    owner: Any = stored_checkpoints
    if moment == "checkpoint_row":
        owner, moment = stored_checkpoints.Checkpoint.objects, "get_or_create"
    before(monkeypatch, owner, moment, lambda: delete(attempt.trial.experiment, with_last_row=with_last_row))
    status, _, body = call(application, "PUT", f"trials/{attempt.job_name}/checkpoints/{checkpoint_id}", manifest)
    assert (status, json.loads(body)["error"]) == (410, "gone")
    assert files_of(data) == []


@pytest.mark.parametrize("with_last_row", [False, True])
@pytest.mark.parametrize("moment", ["before it is stored", "before its row"])
def test_of_a_kept_file_nothing_stays(application: KeeperApplication, make_attempt: Any,
                                      monkeypatch: pytest.MonkeyPatch, data: Path, moment: str, with_last_row: bool
                                      ) -> None:
    attempt = make_attempt()
    owner, name = (FileSystemStorage, "_save") if moment == "before it is stored" else (
        TrialFile.objects, "update_or_create")
    before(monkeypatch, owner, name, lambda: delete(attempt.trial.experiment, with_last_row=with_last_row))
    status, _, body = call(application, "PUT", f"trials/{attempt.job_name}/files/model.bin", b"x")
    assert (status, json.loads(body)["error"]) == (410, "gone")
    assert files_of(data) == []


def test_a_kept_file_of_which_the_row_is_removed_in_the_middle_leaves_nothing(
        application: KeeperApplication, make_attempt: Any, monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    """The rows of files are not gone yet, the files are."""
    attempt = make_attempt()
    before(monkeypatch, TrialFile.objects, "update_or_create", lambda: mark_deleted(attempt.trial.experiment))
    status, _, _ = call(application, "PUT", f"trials/{attempt.job_name}/files/model.bin", b"x")
    assert status == 410
    assert (files_of(data), Attempt.objects.count(), TrialFile.objects.count()) == ([], 1, 0)
    assert not default_storage.exists(f"trials/{attempt.job_name}")
