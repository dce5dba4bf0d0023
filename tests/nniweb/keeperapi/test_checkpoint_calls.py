"""Keepers send checkpoints to nniweb and fetch them: what is kept, what is refused, what a new attempt is told."""

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage

from nniweb.experiments.checkpoints import chunk_files
from nniweb.experiments.checkpoints.chunk_files import chunk_path, manifest_path
from nniweb.experiments.launch.job_forms import checkpoints_document
from nniweb.experiments.models import (
    Attempt,
    Checkpoint,
    CheckpointChunk,
    CheckpointChunkUse,
    Experiment,
    Quota,
    TrialEvent,
)
from nniweb.experiments.models.account import hash_of
from nniweb.keeperapi import checkpoint_calls
from nniweb.keeperapi.application import KeeperApplication
from nniweb.storage.elsewhere import StorageFailed
from tests.nniweb.keeperapi.test_keeper_application import acall, call
from trainingservice.platforms import load_platform
from trainingservice.testing.keeper_protocol import checkpoint, saved
from trialkeeper import checkpoint_manifest, chunk_pack, contract

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def application() -> Iterator[KeeperApplication]:
    application = KeeperApplication()
    yield application
    application.group_commit.close()


def entries(*entries: dict[str, Any], journal_id: str = "j1") -> bytes:
    return json.dumps({"keeper": {"version": 1, "journal_id": journal_id}, "entries": entries}).encode()


STARTED = {"n": 1, "at": 1.0, "type": "started", "pid": 7, "host": "box"}


def send(application: KeeperApplication, attempt: Attempt, *contents: bytes, name: str = "step-3",
         token: str = "token") -> str:
    """Chunks and manifest of a checkpoint; its id."""
    checkpoint_id, manifest, chunks = checkpoint(*contents, name=name)
    _, _, body = call(application, "POST", f"trials/{attempt.job_name}/chunks/missing",
                      json.dumps({"hashes": list(chunks)}).encode(), token)
    for sha256 in json.loads(body)["missing"]:
        assert call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", chunks[sha256], token)[0] == 200
    assert call(application, "PUT", f"trials/{attempt.job_name}/checkpoints/{checkpoint_id}", manifest, token)[0] == 200
    return checkpoint_id


def report(application: KeeperApplication, attempt: Attempt, *said: dict[str, Any], journal_id: str = "j1"
           ) -> dict[str, Any]:
    status, _, body = call(application, "POST", f"trials/{attempt.job_name}/reports",
                           entries(*said, journal_id=journal_id))
    assert status == 200
    return json.loads(body)


def retry_of(attempt: Attempt) -> Attempt:
    Attempt.objects.filter(pk=attempt.pk).update(stage="ended")
    number = attempt.number + 1
    return Attempt.objects.create(
        trial=attempt.trial, number=number, job_name=f"{attempt.trial.public_id}r{number}",
        created_at=attempt.created_at, stage=Attempt.Stage.SUBMITTED, token_hashes=[hash_of("token")])


def test_trials_of_an_experiment_share_chunks_and_those_of_others_do_not(application, make_attempt) -> None:
    first = make_attempt()
    second = make_attempt(first.trial.experiment)
    stranger = make_attempt()
    for attempt in (first, second, stranger):
        send(application, attempt, b"weights")
    assert CheckpointChunk.objects.filter(experiment=first.trial.experiment).count() == 1
    assert CheckpointChunk.objects.filter(experiment=stranger.trial.experiment).count() == 1
    assert CheckpointChunkUse.objects.count() == 3


def test_a_checkpoint_counts_when_its_entry_is_committed(application, make_attempt) -> None:
    attempt = make_attempt()
    checkpoint_id = send(application, attempt, b"weights", b"optimizer")
    row = Checkpoint.objects.get()
    assert (row.size, row.file_count, row.confirmed_at) == (16, 2, None)
    report(application, attempt, STARTED, saved(2, checkpoint_id, k=1, step=7, sequence=4))
    row.refresh_from_db()
    assert (row.k, row.step, row.sequence, row.joined_sequence, row.confirmed_n) == (1, 7, 4, 4, 2)


def test_the_next_attempt_is_told_of_the_latest_three_newest_first(application, make_attempt, make_experiment) -> None:
    attempt = make_attempt(make_experiment(config={"checkpoints": {"keep": 9}}))
    ids = [send(application, attempt, f"weights {k}".encode()) for k in range(1, 5)]
    report(application, attempt, STARTED, *(saved(k + 1, one, k=k, step=k) for k, one in enumerate(ids, 1)))
    unconfirmed = send(application, attempt, b"not told of")
    again = retry_of(attempt)
    job = json.loads(call(application, "GET", f"trials/{again.job_name}/job")[2])
    assert job["checkpoints"]["max_bytes"] == 2048 * 2**20
    assert [one["step"] for one in job["checkpoints"]["resume"]] == [4, 3, 2]
    newest = job["checkpoints"]["resume"][0]["id"]
    assert call(application, "GET", f"trials/{again.job_name}/checkpoints/{newest}")[0] == 200
    assert call(application, "GET", f"trials/{again.job_name}/checkpoints/{unconfirmed}")[0] == 404


@pytest.mark.parametrize(("platform", "asks"), [("local", False), ("slurm", True), ("kubernetes", True)])
def test_a_keeper_asks_anew_where_the_platform_may_run_its_job_again(make_attempt, platform: str, asks: bool) -> None:
    service = load_platform(platform)
    document = checkpoints_document(make_attempt(), service, service.options_model.model_construct(channel="auto"))
    assert document is not None
    assert document["asks_anew"] is asks


def test_the_first_attempt_is_told_of_none_and_asks_the_database_nothing(application, make_attempt,
                                                                        django_assert_num_queries) -> None:
    from nniweb.experiments.checkpoints.stored_checkpoints import to_resume

    attempt = make_attempt()
    with django_assert_num_queries(0):
        assert to_resume(attempt) == []


@pytest.mark.parametrize("config", [{"checkpoints": False}], ids=["turned off"])
def test_an_experiment_that_wants_none_is_told_of_none_and_keeps_none(application, make_attempt, make_experiment,
                                                                      config) -> None:
    attempt = make_attempt(make_experiment(config=config))
    assert json.loads(call(application, "GET", f"trials/{attempt.job_name}/job")[2])["checkpoints"] is None
    sha256 = hashlib.sha256(b"x").hexdigest()
    assert call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", b"x")[0] == 413


def test_an_attempt_that_went_on_says_from_where(application, make_attempt) -> None:
    attempt = make_attempt()
    checkpoint_id = send(application, attempt, b"weights")
    report(application, attempt, STARTED, saved(2, checkpoint_id, step=7, sequence=5))
    again = retry_of(attempt)
    restored = {"n": 2, "at": 3.0, "type": "checkpoint", "event": "restored", "id": checkpoint_id, "k": 0,
                "name": "step-3", "step": 7, "size": 7}
    report(application, again, STARTED, restored, journal_id="j2")
    again.refresh_from_db()
    assert (again.resumed_from.manifest, again.first_sequence) == (checkpoint_id, 5)
    event = TrialEvent.objects.get(kind="resumed")
    assert event.message == 'It went on from the checkpoint "step-3" (step 7) of attempt 1.'
    later = send(application, again, b"more weights")
    report(application, again, saved(3, later, k=1, sequence=2), journal_id="j2")
    assert Checkpoint.objects.get(manifest=later).joined_sequence == 7


def test_a_checkpoint_that_failed_is_told_in_the_trials_history(application, make_attempt) -> None:
    attempt = make_attempt()
    failed = {"n": 2, "at": 3.0, "type": "checkpoint", "event": "failed", "id": None, "k": 1, "name": "step-9",
              "step": 9, "size": 0, "problem": "not_plain", "detail": "model/link"}
    assert report(application, attempt, STARTED, failed)["rejected"] == []
    assert TrialEvent.objects.get(kind="checkpoint failed").message == (
        'Its checkpoint "step-9" could not be kept, because it contains something that is neither a file nor a folder '
        "(model/link).")


@pytest.mark.parametrize(("change", "field"), [
    ({"event": "lost"}, "event"), ({"id": "x"}, "id"), ({"id": None}, "id"), ({"k": 0}, "k"), ({"name": 3}, "name"),
    ({"step": 1.5}, "step"), ({"size": -1}, "size"), ({"sequence": -1}, "sequence"),
    ({"event": "failed", "problem": "boredom"}, "problem"),
    ({"event": "failed", "problem": "changed", "detail": 3}, "detail")])
def test_a_wrong_entry_is_rejected_by_its_field(application, make_attempt, change, field: str) -> None:
    attempt = make_attempt()
    checkpoint_id = send(application, attempt, b"weights")
    answer = report(application, attempt, STARTED, {**saved(2, checkpoint_id), **change})
    assert (answer["accepted"], [(one["n"], one["field"]) for one in answer["rejected"]]) == (2, [(2, field)])


@pytest.mark.parametrize("change", [
    {"version": 2}, {"name": ""}, {"name": "a/b"}, {"name": ".."}, {"files": {}}, {"folders": ["../x"]},
    {"folders": ["/x"]}, {"folders": ["a", "a"]}, {"folders": ["model/0.bin/x"]}, {"path": "../x"}, {"path": "a//b"},
    {"name": ".hidden"}, {"name": "latest"}, {"name": "\udc80"}, {"name": "ä" * 200}, {"folders": []}, {"folders": [3]},
    {"path": 3}, {"mode": 0o1777}, {"size": True},
    {"path": "a\0b"}, {"path": ""}, {"size": 6}, {"size": -1}, {"size": contract.CHUNK_BYTES + 1}, {"mode": 0o10000},
    {"chunks": []}, {"chunks": ["x"]}], ids=str)
def test_a_wrong_manifest_is_refused(application, make_attempt, change) -> None:
    attempt = make_attempt()
    _, manifest, chunks = checkpoint(b"hello")
    for sha256, content in chunks.items():
        assert call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", content)[0] == 200
    document = json.loads(manifest)
    for key, value in change.items():
        (document if key in document else document["files"][0])[key] = value
    wrong = json.dumps(document).encode()
    address = f"trials/{attempt.job_name}/checkpoints/{hashlib.sha256(wrong).hexdigest()}"
    status, _, body = call(application, "PUT", address, wrong)
    assert (status, json.loads(body)["error"]) == (400, "unreadable")
    assert Checkpoint.objects.count() == 0


@pytest.mark.parametrize("part", [b"[]", b"{}", b"0"], ids=str)
def test_a_manifest_that_holds_up_the_server_is_not_read(application, make_attempt, monkeypatch, part: bytes) -> None:
    def read(*_: object) -> None:
        pytest.fail("it was read")

    monkeypatch.setattr(checkpoint_manifest, "read_manifest", read)
    body = b'{"files":[' + b",".join([part] * 1_000_000) + b"]}"
    address = f"trials/{make_attempt().job_name}/checkpoints/{hashlib.sha256(body).hexdigest()}"
    status, _, answer = call(application, "PUT", address, body)
    assert (status, json.loads(answer)["error"]) == (400, "unreadable")


def test_a_manifest_of_the_most_files_is_read(application, make_attempt) -> None:
    attempt = make_attempt()
    sha256 = hashlib.sha256(b"x").hexdigest()
    assert call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", b"x")[0] == 200
    files = [{"path": f"[{number}], {{a}}", "size": 1, "mode": 0o644, "chunks": [sha256]}
             for number in range(contract.MAX_CHECKPOINT_FILES)]
    body = json.dumps({"version": 1, "name": "m", "files": files, "folders": []}).encode()
    address = f"trials/{attempt.job_name}/checkpoints/{hashlib.sha256(body).hexdigest()}"
    assert call(application, "PUT", address, body)[0] == 200


def test_a_checkpoint_over_max_size_is_refused(application, make_attempt, make_experiment) -> None:
    attempt = make_attempt(make_experiment(config={"checkpoints": {"maxSize": 1}}))
    content = b"\0" * 2**20
    one, two = content + b"1", content + b"2"
    checkpoint_id, manifest, chunks = checkpoint(one, two)
    for sha256, chunk in chunks.items():
        call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", chunk)
    status, _, body = call(application, "PUT", f"trials/{attempt.job_name}/checkpoints/{checkpoint_id}", manifest)
    assert (status, json.loads(body)["error"]) == (413, "too_large")
    assert "2.0 MB" in json.loads(body)["message"]


def test_small_chunks_are_sent_and_fetched_together(application, make_attempt) -> None:
    attempt = make_attempt()
    contents = [f"file {number}".encode() for number in range(120)]
    checkpoint_id, manifest, chunks = checkpoint(*contents)
    path = f"trials/{attempt.job_name}/"
    for _ in range(2):  # once more is harmless
        assert call(application, "POST", f"{path}chunks/several", chunk_pack.pack(contents))[0] == 200
    assert CheckpointChunk.objects.filter(lost_at=None).count() == 120
    assert call(application, "PUT", f"{path}checkpoints/{checkpoint_id}", manifest)[0] == 200
    asked = json.dumps({"hashes": list(chunks)}).encode()
    assert call(application, "POST", f"{path}chunks/fetch", asked)[0] == 200
    report(application, attempt, STARTED, saved(2, checkpoint_id))
    status, _, body = call(application, "POST", f"{path}chunks/fetch", asked)
    assert (status, chunk_pack.unpack(body)) == (200, contents)
    default_storage.delete(chunk_path(attempt.trial.experiment.public_id, next(iter(chunks))))
    assert call(application, "POST", f"{path}chunks/fetch", asked)[0] == 404, "each is asked for alone then"
    stranger = make_attempt()
    assert call(application, "POST", f"trials/{stranger.job_name}/chunks/fetch", asked)[0] == 404


@pytest.mark.parametrize("body", [b"\0", b"\0\0\0\0", b"\0\0\0\5abc", chunk_pack.pack([b"x" * 65537]),
                                  chunk_pack.pack([b"x"] * 501)], ids=["number", "empty", "short", "large", "many"])
def test_what_is_no_pack_of_small_chunks_is_refused(application, make_attempt, body: bytes) -> None:
    assert call(application, "POST", f"trials/{make_attempt().job_name}/chunks/several", body)[0] == 400
    assert not CheckpointChunk.objects.exists()


def test_small_chunks_are_durable_before_they_have_their_names(application, make_attempt,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        flushed.add(os.fstat(descriptor).st_ino)

    def watched_link(source: str, *names: str, **more: int) -> None:
        assert os.stat(source).st_ino in flushed
        link(source, *names, **more)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    attempt, contents = make_attempt(), [b"one", b"two", b"three"]
    assert call(application, "POST", f"trials/{attempt.job_name}/chunks/several", chunk_pack.pack(contents))[0] == 200
    for content in contents:
        path = Path(default_storage.path(chunk_path(attempt.trial.experiment.public_id,
                                                    hashlib.sha256(content).hexdigest())))
        assert path.read_bytes() == content
        assert {path.stat().st_ino, path.parent.stat().st_ino, path.parent.parent.stat().st_ino} <= flushed


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_what_is_damaged_on_the_disk_is_not_given_out_and_asked_for_again(application, make_attempt, harm: str) -> None:
    attempt = make_attempt()
    checkpoint_id = send(application, attempt, b"weights")
    report(application, attempt, STARTED, saved(2, checkpoint_id))
    experiment_id = attempt.trial.experiment.public_id
    sha256 = hashlib.sha256(b"weights").hexdigest()
    for path in (chunk_path(experiment_id, sha256), manifest_path(experiment_id, checkpoint_id)):
        if harm == "gone":
            default_storage.delete(path)
        else:
            with default_storage.open(path, "r+b") as file:
                file.write(b"WEIGHTS")
    for address in (f"chunks/{sha256}", f"checkpoints/{checkpoint_id}"):
        status, _, body = call(application, "GET", f"trials/{attempt.job_name}/{address}")
        assert (status, json.loads(body)["error"]) == (404, "damaged" if harm == "damaged" else "unknown")
    body = call(application, "POST", f"trials/{attempt.job_name}/chunks/missing",
                json.dumps({"hashes": [sha256]}).encode())[2]
    assert json.loads(body)["missing"] == [sha256]
    assert call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", b"weights")[0] == 200
    assert call(application, "GET", f"trials/{attempt.job_name}/chunks/{sha256}")[2] == b"weights"


@pytest.mark.parametrize("error", [StorageFailed("The storage of files does not answer."), OSError(5, "I/O error"),
                                   TimeoutError()])
def test_an_answer_that_has_begun_ends_short_where_the_storage_fails(application, make_attempt, monkeypatch, caplog,
                                                                     error: OSError) -> None:
    attempt = make_attempt()
    report(application, attempt, STARTED, saved(2, send(application, attempt, b"weights")))

    def pieces(path: str) -> Iterator[bytes]:
        yield b"wei"
        raise error

    monkeypatch.setattr(checkpoint_calls, "pieces_of", pieces)
    sha256 = hashlib.sha256(b"weights").hexdigest()
    status, headers, body = call(application, "GET", f"trials/{attempt.job_name}/chunks/{sha256}")
    assert (status, headers["content-length"], body) == (200, "7", b"wei")
    [said] = [record for record in caplog.records if "ends in the middle" in record.message]
    assert (said.levelname, said.exc_info) == ("WARNING", None)


def test_a_disk_that_is_nearly_full_takes_no_chunks(application, make_attempt, monkeypatch) -> None:
    monkeypatch.setattr(chunk_files, "KEPT_FREE", 2**62)
    attempt = make_attempt()
    sha256 = hashlib.sha256(b"weights").hexdigest()
    status, headers, body = call(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", b"weights")
    assert (status, headers["retry-after"], json.loads(body)["error"]) == (503, "30", "busy")


def test_an_ended_attempt_can_send_nothing(application, make_attempt) -> None:
    attempt = make_attempt()
    checkpoint_id, manifest, chunks = checkpoint(b"weights")
    Attempt.objects.update(stage="ended")
    for method, path, body in (("POST", "chunks/missing", b'{"hashes": []}'), ("GET", f"chunks/{checkpoint_id}", b""),
                               ("PUT", f"chunks/{next(iter(chunks))}", b"weights"),
                               ("PUT", f"checkpoints/{checkpoint_id}", manifest)):
        assert call(application, method, f"trials/{attempt.job_name}/{path}", body)[0] == 410


@pytest.mark.parametrize("body", [b"", b"[]", b'{"hashes": 3}', b'{"hashes": ["x"]}',
                                  json.dumps({"hashes": ["0" * 64] * 10_001}).encode()],
                         ids=["nothing", "a list", "a number", "no hash", "too many"])
def test_a_wrong_question_is_refused(application, make_attempt, body: bytes) -> None:
    assert call(application, "POST", f"trials/{make_attempt().job_name}/chunks/missing", body)[0] == 400


def test_a_gigabyte_in_chunks_is_no_flood_and_uses_up_nothing_of_what_may_be_reported(application, make_attempt
                                                                                      ) -> None:
    attempt = make_attempt()
    content = b"\0" * contract.CHUNK_BYTES
    sha256 = hashlib.sha256(content).hexdigest()

    async def all_of_them() -> set[int]:
        return {(await acall(application, "PUT", f"trials/{attempt.job_name}/chunks/{sha256}", content))[0]
                for _ in range(30)}

    assert asyncio.run(all_of_them()) == {200}, "more than ten times 8 MB, which a keeper may report"
    assert application.limits.seconds_to_wait((attempt.job_name, hash_of("token")), "") == 0.0


@pytest.mark.parametrize("whose", ["user", "group", "everybody"])
def test_a_quota_that_is_used_up_takes_no_chunk_more_and_chunks_that_are_there(application, make_attempt, vision,
                                                                              whose: str) -> None:
    attempt = make_attempt()
    experiment = attempt.trial.experiment
    Experiment.objects.update(group=vision)
    send(application, attempt, b"weights")
    CheckpointChunk.objects.update(size=2**30)  # as large as the quota
    Quota.objects.create(max_checkpoint_gb=1, user=experiment.owner if whose == "user" else None,
                         group=vision if whose == "group" else None)
    address = f"trials/{attempt.job_name}/chunks"
    more = hashlib.sha256(b"more").hexdigest()
    status, _, body = call(application, "PUT", f"{address}/{more}", b"more")
    assert (status, json.loads(body)["error"]) == (413, "too_large")
    assert "allows 1 GB of checkpoints" in json.loads(body)["message"]
    known = hashlib.sha256(b"weights").hexdigest()
    assert call(application, "PUT", f"{address}/{known}", b"weights")[0] == 200
