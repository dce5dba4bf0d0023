"""Files of an installation in an S3-compatible storage: every door, and what happens while the storage is away.

One real server for all tests, which checks signatures.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.utils import timezone

from nniweb.backups.archive import unpack
from nniweb.doctor import files as doctor_files
from nniweb.doctor.findings import Verdict
from nniweb.experiments.downloads.kept_files import content_of
from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import (
    Attempt,
    CodeArchive,
    DiskUsage,
    Experiment,
    FolderUsage,
    Trial,
    TrialFile,
    TrialOutput,
)
from nniweb.experiments.output import segments
from nniweb.experiments.retention import output_storing
from nniweb.observability.readiness import readiness
from nniweb.storage import elsewhere as elsewhere_module
from nniweb.storage.elsewhere import StorageElsewhere, StorageFailed, elsewhere
from nniweb.storage.local_copies import copy_path
from nniweb.worker.housekeeping.upkeep import Upkeep
from tests.fakes.moto_s3 import MotoS3
from tests.nniweb.keeperapi.test_keeper_application import application, call

pytest.importorskip("minio", reason="the package minio is missing: pip install -r requirements/s3.txt")

__all__ = ["application"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def service() -> Iterator[MotoS3]:
    service = MotoS3()
    yield service
    service.close()


@pytest.fixture
def data(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_FOLDER = tmp_path / "data"
    (tmp_path / "data" / "files").mkdir(parents=True)
    return tmp_path / "data"


@pytest.fixture
def store(service: MotoS3, data: Path, settings: Any) -> Callable[..., StorageElsewhere]:
    """Sets the storage of files; each test has objects of its own. Keywords replace options of the class."""
    folder = f"{data.parent.name}-{id(data)}"

    def use(**options: str) -> StorageElsewhere:
        settings.STORAGES = {**settings.STORAGES, "default": {
            "BACKEND": "nniweb.storage.elsewhere.StorageElsewhere", "OPTIONS": {
                "backend": "nniweb.storage.s3_storage.S3Storage", "folder": str(data / "files"),
                "options": {**service.options, "folder": folder, **options}}}}
        segments.read_segment.cache_clear()
        storage = elsewhere()
        assert storage is not None
        return storage

    return use


@pytest.fixture
def storage(store: Callable[..., StorageElsewhere]) -> StorageElsewhere:
    return store()


@pytest.fixture(autouse=True)
def well_again() -> Iterator[None]:
    yield
    StorageElsewhere.part.is_well()


def archive_of(text: str) -> tuple[bytes, str]:
    packed = io.BytesIO()
    # the same bytes whenever it is packed
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as squeezed, tarfile.open(fileobj=squeezed, mode="w") as tar:
        member = tarfile.TarInfo("main.py")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue(), hashlib.sha256(packed.getvalue()).hexdigest()


def keep_archive(data: Path, text: str = "print(1)") -> CodeArchive:
    content, sha256 = archive_of(text)
    path = data / "brought.tar.gz"
    path.write_bytes(content)
    return code_archives.keep_archive(path, sha256, 1, timezone.now())


def ended_attempt(make_attempt: Callable[..., Attempt], *pieces: tuple[int, bytes, int], days: float = 3) -> Attempt:
    """Of a trial that ended so long ago and wrote this to stdout: offset, data, skipped."""
    attempt, at = make_attempt(), timezone.now() - timedelta(days=days)
    Attempt.objects.filter(pk=attempt.pk).update(stage="ended", ended_at=at, end_received_at=at)
    Trial.objects.filter(pk=attempt.trial_id).update(status="SUCCEEDED", ended_at=at)
    TrialOutput.objects.bulk_create(
        TrialOutput(attempt=attempt, stream="stdout", offset=offset, data=piece, skipped=skipped)
        for offset, piece, skipped in pieces)
    return attempt


def look_after(*experiments: Experiment, **retention: Any) -> None:
    Experiment.objects.filter(pk__in=[one.pk for one in experiments]).update(look_after_at=None, retention=retention)
    upkeep = Upkeep(sleep=lambda seconds: None)
    while upkeep.look():
        pass


# --- kept files and code -------------------------------------------------------------------------


def test_a_file_that_a_keeper_sends_goes_there_and_whoever_may_downloads_it(
        application: Any, make_attempt: Any, admin: Any, with_token: Any, data: Path, storage: StorageElsewhere
        ) -> None:
    attempt = make_attempt()
    for content in (b"first", b"second" * 100_000):
        assert call(application, "PUT", f"trials/{attempt.job_name}/files/out/model.bin", content)[0] == 200
    kept = TrialFile.objects.get()
    assert storage.open_there(kept.storage_path).read() == content
    assert not list((data / "files").iterdir()), "nothing lies in the data folder"
    address = f"/api/v1/trials/{attempt.trial.public_id}/files/{kept.pk}/"
    client = with_token(admin)
    assert client.get(address).content == content
    default_storage.delete(kept.storage_path)
    default_storage.save(kept.storage_path, ContentFile(b"damage"))
    answer = client.get(address)
    assert (answer.status_code, "was damaged" in answer.json()["errors"][0]["message"]) == (410, True)
    default_storage.delete(kept.storage_path)
    assert client.get(address).status_code == 404


def test_code_is_kept_there_and_fetched_once_for_each_machine(
        application: Any, make_attempt: Any, data: Path, storage: StorageElsewhere) -> None:
    archive = keep_archive(data)
    attempt = make_attempt()
    Experiment.objects.filter(pk=attempt.trial.experiment_id).update(code=archive)
    path = f"experiments/{attempt.trial.experiment.public_id}/code"
    status, _, body = call(application, "GET", path)
    assert (status, hashlib.sha256(body).hexdigest()) == (200, archive.sha256)
    storage.delete(archive.storage_path)
    assert call(application, "GET", path)[2] == body, "this machine has its copy"
    copy_path(archive.storage_path).write_bytes(b"half")
    keep_archive(data)
    assert call(application, "GET", path)[2] == body, "a damaged copy is fetched again"


def test_code_that_is_damaged_there_is_replaced_by_the_next_launch_of_the_same(
        data: Path, storage: StorageElsewhere) -> None:
    archive = keep_archive(data)
    default_storage.save(archive.storage_path, ContentFile(b"damage"))
    with pytest.raises(OSError, match="is damaged"):
        code_archives.local_path(archive)
    code_archives._given_up.clear()
    keep_archive(data)
    assert hashlib.sha256(code_archives.local_path(archive).read_bytes()).hexdigest() == archive.sha256
    CodeArchive.objects.update(last_used=timezone.now() - timedelta(days=2))
    assert code_archives.remove_unused(timezone.now()) == 1
    assert not storage.exists(archive.storage_path)
    assert not copy_path(archive.storage_path).exists()


# --- output --------------------------------------------------------------------------------------

LONG = [(number * 50_000, f"{number:05}".encode() * 10_000, 0) for number in range(50)]
WITH_GAPS = [(0, b"one\n", 0), (10, b"two\n", 0), (114, "drei \N{SNOWMAN}\n".encode(), 100)]


def test_output_of_trials_that_ended_goes_there_and_reads_as_before(
        make_attempt: Any, admin: Any, with_token: Any, client: Any, storage: StorageElsewhere) -> None:
    long, gaps = ended_attempt(make_attempt, *LONG), ended_attempt(make_attempt, *WITH_GAPS)
    young = ended_attempt(make_attempt, (0, b"young", 0), days=0.5)
    rest = with_token(admin)

    def seen(attempt: Attempt) -> list[Any]:
        address = f"/api/v1/trials/{attempt.trial.public_id}/output/"
        found, offset = [rest.get(f"{address}text/").content], 0
        for _ in range(60):
            part = rest.get(address, {"offset": offset, "limit": 70_000}).json()
            found.append(part)
            if part["next_offset"] == offset:
                break
            offset = part["next_offset"]
        client.force_login(admin)
        page = client.get(f"/trials/{attempt.trial.public_id}/")
        assert page.status_code == 200
        return [*found, page.content.decode().partition('data-stream="stdout"')[2].partition("</section>")[0]]

    before = [seen(attempt) for attempt in (long, gaps, young)]
    look_after(*Experiment.objects.all())
    rows = TrialOutput.objects.filter(attempt=long)
    assert [row.data for row in rows] == [b""] * 3, "2.5 MB in segments of 1 MiB"
    assert TrialOutput.objects.filter(attempt=gaps).get().skipped == 100
    assert TrialOutput.objects.filter(attempt=young).get().storage_path is None
    assert [seen(attempt) for attempt in (long, gaps, young)] == before
    usage = DiskUsage.objects.get(experiment=long.trial.experiment)
    assert usage.output_stored_bytes >= 2_500_000
    assert usage.output_bytes >= usage.output_stored_bytes
    Upkeep(sleep=lambda seconds: None).measure_data_folder()
    there = dict(FolderUsage.objects.filter(host="file storage").values_list("part", "bytes"))
    assert there["output"] >= 2_500_000


def test_what_is_damaged_or_lost_of_it_is_said_and_not_shown(
        make_attempt: Any, admin: Any, with_token: Any, client: Any, storage: StorageElsewhere) -> None:
    attempt = ended_attempt(make_attempt, (0, b"kept", 0))
    look_after(attempt.trial.experiment)
    path = TrialOutput.objects.get().storage_path
    assert path is not None
    for harm, sentence in ((lambda: storage.put(path, ContentFile(b"damage")), "is damaged in the server"),
                           (lambda: storage.delete(path), "cannot be read from the server")):
        harm()
        segments.read_segment.cache_clear()
        for address in ("", "text/"):
            answer = with_token(admin).get(f"/api/v1/trials/{attempt.trial.public_id}/output/{address}")
            assert (answer.status_code, sentence in answer.json()["errors"][0]["message"]) == (410, True)
        client.force_login(admin)
        page = client.get(f"/trials/{attempt.trial.public_id}/")
        assert (page.status_code, sentence in page.content.decode()) == (200, True)


def test_two_workers_that_move_the_same_output_keep_it(
        make_attempt: Any, storage: StorageElsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = ended_attempt(make_attempt, (0, b"kept", 0))
    store_segment = output_storing.store_segment

    def store_when_another_has(*segment: Any) -> segments.StoredSegment:
        monkeypatch.setattr(output_storing, "store_segment", store_segment)
        look_after(attempt.trial.experiment)  # it is to be looked at anew, so another worker takes it, too
        return store_segment(*segment)

    monkeypatch.setattr(output_storing, "store_segment", store_when_another_has)
    look_after(attempt.trial.experiment)
    row = TrialOutput.objects.get()
    assert (row.storage_path, row.stored_sha256) != (None, None)
    assert segments.read_segment(row.storage_path, row.stored_sha256) == ((0, b"kept", 0),)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["retention", "deletion"])
def test_files_go_with_their_rows(application: Any, make_attempt: Any, storage: StorageElsewhere, is_deleted: bool
                                  ) -> None:
    attempt = make_attempt()
    assert call(application, "PUT", f"trials/{attempt.job_name}/files/a", b"content")[0] == 200
    kept = TrialFile.objects.get()
    at = timezone.now() - timedelta(days=3)
    Attempt.objects.update(stage="ended", ended_at=at, end_received_at=at)
    Trial.objects.update(status="SUCCEEDED", ended_at=at)
    TrialOutput.objects.create(attempt=attempt, stream="stderr", offset=0, data=b"output")
    look_after(attempt.trial.experiment)
    output = TrialOutput.objects.get().storage_path
    assert output is not None
    assert storage.exists(output)
    if is_deleted:
        Experiment.objects.update(deleted_at=timezone.now(), status="STOPPED")
        look_after(attempt.trial.experiment)
    else:
        look_after(attempt.trial.experiment, output=1, files=1)
    assert (TrialFile.objects.count(), TrialOutput.objects.count()) == (0, 0)
    assert not storage.exists(output)
    assert not storage.exists(kept.storage_path)


# --- the storage is away -------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "sentence"), [
    ({"endpoint": "http://127.0.0.1:9"}, "does not answer"),
    ({"secret_key": "wrong"}, "does not accept the credentials"),
    ({"bucket": "another"}, "has no such bucket")], ids=["away", "wrong keys", "no bucket"])
def test_while_it_cannot_be_used_everybody_is_told_and_all_is_done_later(
        application: Any, make_attempt: Any, admin: Any, with_token: Any, client: Any, store: Any, data: Path,
        options: dict[str, str], sentence: str) -> None:
    store()
    attempt, archive = ended_attempt(make_attempt, (0, b"kept", 0)), keep_archive(data)
    sender = make_attempt()
    assert call(application, "PUT", f"trials/{sender.job_name}/files/a", b"content")[0] == 200
    look_after(attempt.trial.experiment)
    Experiment.objects.filter(pk=sender.trial.experiment_id).update(code=archive)
    away = store(**options)
    rest = with_token(admin)
    status, headers, body = call(application, "PUT", f"trials/{sender.job_name}/files/b", b"content")
    assert (status, json.loads(body)["error"]) == (503, "busy")
    status, headers, _ = call(application, "GET", f"experiments/{sender.trial.experiment.public_id}/code")
    assert (status, headers["retry-after"]) == (503, "30")
    kept = TrialFile.objects.get()
    for address in (f"{sender.trial.public_id}/files/{kept.pk}/", f"{attempt.trial.public_id}/output/"):
        answer = rest.get(f"/api/v1/trials/{address}")
        assert (answer.status_code, answer["Retry-After"]) == (503, "30")
    client.force_login(admin)
    page = client.get(f"/trials/{attempt.trial.public_id}/").content.decode()
    assert "storage of files cannot be used at the moment" in page
    [warning] = [said for said in readiness()[1]["warnings"] if "storage of files" in said]
    assert sentence in warning
    assert "127.0.0.1" not in warning, "anybody may ask"
    [finding] = [found for found in doctor_files.stored() if found.verdict is Verdict.WRONG]
    assert sentence in finding.message
    Trial.objects.update(ended_at=timezone.now() - timedelta(days=3))
    Attempt.objects.update(stage="ended", end_received_at=timezone.now() - timedelta(days=3))
    look_after(attempt.trial.experiment, sender.trial.experiment, files=1, output=1)
    assert (TrialFile.objects.count(), TrialOutput.objects.count()) == (1, 1), "no row goes before its file"
    CodeArchive.objects.update(last_used=timezone.now() - timedelta(days=2))
    Experiment.objects.update(code=None)
    with pytest.raises(StorageFailed):
        code_archives.remove_unused(timezone.now())
    with pytest.raises(CommandError, match="Nothing is lost"):
        call_command("move-files")
    assert away.part.trouble
    store()
    look_after(attempt.trial.experiment, sender.trial.experiment, files=1, output=1)
    assert (TrialFile.objects.count(), TrialOutput.objects.count()) == (0, 0)
    assert code_archives.remove_unused(timezone.now()) == 1
    assert away.part.trouble == ""


def test_one_that_keeps_people_waiting_is_not_asked_by_all_of_them(
        storage: StorageElsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def silent(name: str) -> bool:
        asked.append(name)
        raise TimeoutError("timed out")

    monkeypatch.setattr(storage._storage, "exists", silent)
    monkeypatch.setattr(elsewhere_module, "SLOW_SECONDS", -1.0)
    for _ in range(3):
        with pytest.raises(StorageFailed) as failed:
            storage.exists("a")
        assert failed.value.what == "does not answer"
    assert asked == ["a"]


def test_a_file_of_which_only_a_part_arrived_is_not_counted_as_stored(
        application: Any, make_attempt: Any, storage: StorageElsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    real = storage._storage.save
    monkeypatch.setattr(storage._storage, "save", lambda name, content: real(name, ContentFile(content.read()[:3])))
    attempt = make_attempt()
    assert call(application, "PUT", f"trials/{attempt.job_name}/files/a", b"content")[0] == 503
    assert TrialFile.objects.count() == 0
    monkeypatch.setattr(storage._storage, "save", real)
    assert call(application, "PUT", f"trials/{attempt.job_name}/files/a", b"content")[0] == 200
    assert content_of(TrialFile.objects.get()) == b"content"


# --- moving and backups --------------------------------------------------------------------------


def test_files_are_moved_there_while_they_are_read_and_an_interrupted_move_goes_on(
        application: Any, make_attempt: Any, store: Any, data: Path, settings: Any, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    settings.STORAGES = {**settings.STORAGES, "default": {**settings.STORAGES["default"], "OPTIONS": {
        "location": str(data / "files")}}}
    attempt, archive = make_attempt(), keep_archive(data)
    for name in "abc":
        assert call(application, "PUT", f"trials/{attempt.job_name}/files/{name}", name.encode() * 1000)[0] == 200
    with pytest.raises(CommandError, match="NNIWEB_FILE_STORAGE is not set"):
        call_command("move-files")
    storage = store()
    put, count = storage.put, [0]

    def put_two(name: str, content: Any) -> None:
        count[0] += 1
        if count[0] > 2:
            raise StorageFailed("The storage of files went away.")
        put(name, content)

    monkeypatch.setattr(storage, "put", put_two)
    with pytest.raises(CommandError, match="Nothing is lost"):
        call_command("move-files")
    here = [path for path in (data / "files").rglob("*") if path.is_file()]
    assert len(here) == 2
    assert [content_of(file) for file in TrialFile.objects.order_by("name")] == [b"a" * 1000, b"b" * 1000, b"c" * 1000]
    monkeypatch.setattr(storage, "put", put)
    call_command("move-files")
    assert "Moved: 2 of 2 files" in capsys.readouterr().out
    assert not list((data / "files").rglob("*"))
    assert [content_of(file) for file in TrialFile.objects.order_by("name")] == [b"a" * 1000, b"b" * 1000, b"c" * 1000]
    assert code_archives.local_path(archive).stat().st_size == archive.size
    call_command("move-files", "--back")
    assert "Copied: 4 of 4 files" in capsys.readouterr().out
    settings.STORAGES = {**settings.STORAGES, "default": {
        "BACKEND": "nniweb.storage.durable_storage.DurableFileSystemStorage", "OPTIONS": {
            "location": str(data / "files")}}}
    assert [content_of(file) for file in TrialFile.objects.order_by("name")] == [b"a" * 1000, b"b" * 1000, b"c" * 1000]


def test_a_backup_says_what_is_not_in_it_and_holds_it_where_that_is_wanted(
        application: Any, make_attempt: Any, storage: StorageElsewhere, data: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    attempt, archive = ended_attempt(make_attempt, (0, b"words", 0)), keep_archive(data)
    look_after(attempt.trial.experiment)
    sender = make_attempt()
    assert call(application, "PUT", f"trials/{sender.job_name}/files/a", b"content")[0] == 200
    names = {f"files/{name}" for name in (archive.storage_path, TrialFile.objects.get().storage_path,
                                          TrialOutput.objects.get().storage_path)}
    for options, expected in (((), set()), (("--with-stored-files",), names)):
        path = data.parent / f"backup{len(options)}.tar.gz"
        call_command("backup", *options, str(path))
        said = capsys.readouterr().out
        assert ("does not include the files in the storage" in said) is not bool(options)
        (data.parent / f"unpacked{len(options)}").mkdir()
        manifest = unpack(path, data.parent / f"unpacked{len(options)}")
        assert {name for name in manifest["members"] if name.startswith("files/")} == expected
        assert ("stored_elsewhere" in manifest) is not bool(options)
