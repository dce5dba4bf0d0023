"""The keepers' ASGI application, called as a web server calls it."""

import asyncio
import gzip
import json
from typing import Any

import psycopg
import pytest
from django.db import InternalError

from nniweb.experiments.ingest.report_intervals import Fleet, intervals
from nniweb.experiments.models import Attempt, Metric, Trial, TrialFile
from nniweb.keeperapi.application import KeeperApplication
from trialkeeper import contract

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def application():
    application = KeeperApplication()
    yield application
    application.group_commit.close()


def call(application: KeeperApplication, method: str, path: str, body: bytes = b"", token: str | None = "token",
         **headers: str) -> tuple[int, dict[str, str], bytes]:
    return asyncio.run(acall(application, method, path, body, token, **headers))


async def acall(application: KeeperApplication, method: str, path: str, body: bytes = b"", token: str | None = "token",
                **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[Any] = []
    pieces = [body[start: start + 100_000] for start in range(0, len(body), 100_000)] or [b""]
    messages = [{"type": "http.request", "body": piece, "more_body": piece is not pieces[-1]} for piece in pieces]
    messages[-1]["more_body"] = False

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    if token is not None:
        raw.append((b"authorization", f"Bearer {token}".encode()))
    scope = {"type": "http", "method": method, "path": contract.URL_PREFIX + path, "headers": raw}
    await application(scope, receive, send)
    return (sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]},
            b"".join(message.get("body", b"") for message in sent[1:]))


def document(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keeper": {"version": 1, "journal_id": "j1"}, "entries": entries}).encode()


STARTED = {"n": 1, "at": 1.0, "type": "started", "pid": 7, "host": "box"}


def metric(n: int, value: str = "1") -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "metric", "kind": "PERIODICAL", "sequence": n, "value": value}


def test_a_report_is_durable_when_it_is_acknowledged(application, make_attempt) -> None:
    attempt = make_attempt()
    status, _, body = call(application, "POST", f"trials/{attempt.job_name}/reports", document(STARTED, metric(2)))
    answer = json.loads(body)
    assert (status, answer["accepted"], answer["orders"]) == (200, 2, [])
    assert answer["installation"]
    assert Metric.objects.get().value == "1"
    assert Trial.objects.get().status == "RUNNING"


def test_many_reports_at_once_are_all_answered(application, make_attempt) -> None:
    attempts = [make_attempt() for _ in range(30)]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(acall(application, "POST", f"trials/{attempt.job_name}/reports",
                                            document(STARTED, metric(2))) for attempt in attempts))

    assert {status for status, _, _ in asyncio.run(all_at_once())} == {200}
    assert Metric.objects.count() == 30


def test_a_keeper_that_is_asked_back_late_keeps_no_connection(application, make_attempt,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "fleet", Fleet(50_000))
    monkeypatch.setattr(intervals, "count_if_due", lambda: None)
    path = f"trials/{make_attempt().job_name}/reports"
    answers = [call(application, "POST", path, document(*entries)) for entries in ((STARTED,), (), (metric(2),))]
    assert [headers.get("connection") for _, headers, _ in answers] == [None, "close", None]
    assert [json.loads(body)["next_report_within"] > 30 for _, _, body in answers] == [False, True, False]


def several(*reports: tuple[Attempt, str, dict[str, Any]]) -> bytes:
    return json.dumps({"reports": [{"job_name": attempt.job_name, "token": token, **more, "keeper": {
        "version": 1, "journal_id": "j1"}} for attempt, token, more in reports]}).encode()


def test_signs_of_life_of_several_keepers_come_in_one_request_and_each_has_its_answer(application,
                                                                                     make_attempt) -> None:
    first, stopped, strange = make_attempt(), make_attempt(), make_attempt()
    for attempt in (first, stopped, strange):
        call(application, "POST", f"trials/{attempt.job_name}/reports", document(STARTED))
    Attempt.objects.update(heard_at=None)
    Trial.objects.filter(pk=stopped.trial_id).update(target="USER_CANCELED")
    status, _, body = call(application, "POST", f"trials/{first.job_name}/reports/several", several(
        (first, "token", {"resources": {"cpu_percent": 5.0}}), (stopped, "token", {}), (strange, "wrong", {})))
    answers = json.loads(body)["answers"]
    assert (status, [answer["status"] for answer in answers]) == (200, [200, 200, 401])
    assert [len(answer.get("orders", [])) for answer in answers] == [0, 1, 0]
    assert answers[0]["accepted"] == 1
    assert set(Attempt.objects.filter(heard_at__isnull=False)) == {first, stopped}
    first.refresh_from_db()
    assert first.resources == {"cpu_percent": 5.0}


def test_a_sign_of_life_that_comes_twice_in_one_request_is_taken_twice(application, make_attempt) -> None:
    attempt = make_attempt()
    call(application, "POST", f"trials/{attempt.job_name}/reports", document(STARTED))
    status, _, body = call(application, "POST", f"trials/{attempt.job_name}/reports/several", several(
        (attempt, "token", {"resources": {"cpu_percent": 5.0}}), (attempt, "token", {}), (attempt, "token", {})))
    assert (status, [answer["status"] for answer in json.loads(body)["answers"]]) == (200, [200, 200, 200])
    attempt.refresh_from_db()
    assert (attempt.accepted, attempt.resources) == (1, {"cpu_percent": 5.0})


@pytest.mark.parametrize("job_name", ["first", "nobody"])
def test_who_reports_for_several_needs_the_token_of_the_job_in_the_address(application, make_attempt,
                                                                           job_name: str) -> None:
    first, second = make_attempt(), make_attempt()
    for attempt in (first, second):
        call(application, "POST", f"trials/{attempt.job_name}/reports", document(STARTED))
    Attempt.objects.update(heard_at=None)
    path = f"trials/{first.job_name if job_name == 'first' else 'nobody'}/reports/several"
    status, _, body = call(application, "POST", path, several((second, "token", {})), token="wrong")
    assert (status, json.loads(body)["error"]) == (401, "token"), "404 would say that there is no such request"
    assert not Attempt.objects.filter(heard_at__isnull=False).exists()
    assert call(application, "POST", path.replace("nobody", first.job_name), several((second, "token", {})))[0] == 200


@pytest.mark.parametrize("body", [
    b"[]", b"{}", b'{"reports": []}', b'{"reports": [1]}', b'{"reports": [{"job_name": 1, "token": "t"}]}',
    b'{"reports": [{"job_name": "a", "token": null}]}',
    b'{"reports": [{"job_name": "a\\u0000", "token": "t"}]}', b'{"reports": [{"job_name": "\\ud800", "token": "t"}]}',
    b'{"reports": [{"job_name": "a", "token": "\\ud800"}]}',
    b'{"reports": [{"job_name": "a", "token": "t", "entries": [{"n": 1}]}]}',
    json.dumps({"reports": [{"job_name": "a", "token": "t"}] * (contract.MOST_SEVERAL_REPORTS + 1)}).encode()])
def test_several_reports_that_are_wrong_are_refused_together(application, make_attempt, body: bytes) -> None:
    attempt = make_attempt()
    status, _, answer = call(application, "POST", f"trials/{attempt.job_name}/reports/several", body)
    assert (status, json.loads(answer)["error"]) == (400, "unreadable")


def test_one_of_several_reports_that_cannot_be_written_again_is_refused_and_the_others_are_taken(application,
                                                                                                make_attempt) -> None:
    odd, usual = make_attempt(), make_attempt()
    for attempt in (odd, usual):
        call(application, "POST", f"trials/{attempt.job_name}/reports", document(STARTED))
    status, _, body = call(application, "POST", f"trials/{odd.job_name}/reports/several", several(
        (odd, "token", {"resources": {"\ud800": 1}}), (odd, "token", {"resources": {"cpu_percent": 10**30}}),
        (usual, "token", {})))
    assert (status, [answer["status"] for answer in json.loads(body)["answers"]]) == (200, [400, 400, 200])


def test_a_report_that_makes_the_server_fail_does_not_hold_up_those_of_others(application, make_attempt,
                                                                              monkeypatch) -> None:
    from nniweb.experiments.ingest import reports

    attempts = [make_attempt() for _ in range(7)]
    real = reports._store

    def fails(deliveries, **more):
        if any(delivery.job_name == attempts[3].job_name for delivery in deliveries):
            raise OverflowError("a mistake of ours")
        return real(deliveries, **more)

    monkeypatch.setattr(reports, "_store", fails)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(acall(application, "POST", f"trials/{attempt.job_name}/reports",
                                            document(STARTED, metric(2))) for attempt in attempts))

    assert [status for status, _, _ in asyncio.run(all_at_once())] == [200] * 3 + [500] + [200] * 3
    assert Metric.objects.count() == 6


def test_gzip_is_taken(application, make_attempt) -> None:
    attempt = make_attempt()
    status, _, _ = call(application, "POST", f"trials/{attempt.job_name}/reports", gzip.compress(document(STARTED)),
                        content_encoding="gzip")
    assert status == 200


@pytest.mark.parametrize(("body", "headers", "status", "error"), [
    (b"{garbage", {}, 400, "unreadable"),
    (b"[]", {}, 400, "unreadable"),
    (b"{}", {}, 400, "unreadable"),
    (b"not gzip", {"content_encoding": "gzip"}, 400, "unreadable"),
    (b"x" * (contract.MAX_REPORT_BYTES + 1), {}, 413, "too_large"),
    (gzip.compress(b" " * (contract.MAX_REPORT_BYTES + 1)), {"content_encoding": "gzip"}, 413, "too_large"),
    (b"", {"content_length": str(contract.MAX_REPORT_BYTES + 1)}, 413, "too_large"),
    (document({**STARTED, "n": 2}), {}, 409, "gap"),
], ids=["garbage", "a list", "nothing in it", "no gzip", "too large", "a bomb", "too large by its own word", "a gap"])
def test_what_cannot_be_taken_is_refused_and_nothing_changes(application, make_attempt, body: bytes, headers: Any,
                                                             status: int, error: str) -> None:
    attempt = make_attempt()
    before = Attempt.objects.values().get()
    answered, _, answer = call(application, "POST", f"trials/{attempt.job_name}/reports", body, **headers)
    assert (answered, json.loads(answer)["error"]) == (status, error)
    assert Attempt.objects.values().get() == before
    assert Metric.objects.count() == 0


@pytest.mark.parametrize("token", [None, "", "wrong"])
@pytest.mark.parametrize(("method", "path"), [
    ("POST", "trials/{job}/reports"), ("GET", "trials/{job}/job"), ("GET", "experiments/{experiment}/code"),
    ("GET", "trials/{job}/keeper"), ("PUT", "trials/{job}/files/model.bin")])
def test_nothing_opens_without_the_attempts_token(application, make_attempt, token, method: str, path: str) -> None:
    attempt = make_attempt()
    path = path.format(job=attempt.job_name, experiment=attempt.trial.experiment.public_id)
    body = document(STARTED) if method == "POST" else b"x"
    assert call(application, method, path, body, token=token)[0] == 401
    assert TrialFile.objects.count() == 0


def test_a_persons_token_does_not_open_the_keepers_door(application, make_attempt, admin) -> None:
    from nniweb.experiments.models import ApiToken

    attempt = make_attempt()
    token = ApiToken.make(admin)
    assert call(application, "POST", f"trials/{attempt.job_name}/reports", document(STARTED), token=token)[0] == 401


def test_the_job_tells_what_to_run(application, make_attempt, make_experiment) -> None:
    attempt = make_attempt(make_experiment(trial_command="python3 t.py && echo done", code_folder="/code",
                                           max_trial_duration=60), ask_number=3)
    status, _, body = call(application, "GET", f"trials/{attempt.job_name}/job")
    job = json.loads(body)
    assert status == 200
    assert (job["command"], job["code"], job["sequence_id"]) == ("python3 t.py && echo done", {"folder": "/code"}, 0)
    assert job["limits"]["max_trial_duration"] == 60
    assert json.loads(job["parameters"][0]["text"]) == {
        "parameter_id": 3, "parameter_source": "algorithm", "parameters": {"x": 0.5}, "parameter_index": 0}


def test_a_trial_with_changed_code_is_told_the_copy_and_others_the_folder(application, make_attempt, make_experiment,
                                                                          tmp_path) -> None:
    from django.utils import timezone

    from nniweb.experiments.launch.code_archives import keep_folder
    from nniweb.experiments.variants.stored_variants import keep_variant
    from trainingservice.variants.code_variant import ChangedFile, variant_content

    (tmp_path / "train.py").write_text("print(1)")
    code = keep_folder(tmp_path, timezone.now())
    experiment = make_experiment(code=code, code_folder=str(tmp_path))
    variant = keep_variant(variant_content(code.sha256, [ChangedFile("train.py", "print(2)", "print(1)")]),
                           timezone.now())
    plain, changed = make_attempt(experiment), make_attempt(experiment, variant=variant)
    job = json.loads(call(application, "GET", f"trials/{plain.job_name}/job")[2])
    assert (job["code"], job["variant"]) == ({"folder": str(tmp_path)}, None)
    job = json.loads(call(application, "GET", f"trials/{changed.job_name}/job")[2])
    assert (job["code"], job["variant"]["sha256"]) == ({"sha256": code.sha256}, variant.sha256)


def test_the_job_of_an_ended_attempt_is_gone(application, make_attempt) -> None:
    attempt = make_attempt()
    Attempt.objects.update(stage="ended")
    assert call(application, "GET", f"trials/{attempt.job_name}/job")[0] == 410
    assert call(application, "GET", f"trials/{attempt.job_name}/keeper")[0] == 410, "nor is a keeper handed out for it"


def test_the_code_comes_with_its_hash(application, make_attempt, make_experiment, tmp_path) -> None:
    from django.utils import timezone

    from nniweb.experiments.launch.code_archives import keep_folder

    (tmp_path / "train.py").write_text("print(1)")
    experiment = make_experiment(code=keep_folder(tmp_path, timezone.now()))
    make_attempt(experiment)
    path = f"experiments/{experiment.public_id}/code"
    status, headers, body = call(application, "GET", path)
    import hashlib

    assert (status, headers["etag"].strip('"')) == (200, hashlib.sha256(body).hexdigest())
    assert call(application, "GET", path, if_none_match=headers["etag"])[0] == 304


def test_code_waits_for_a_keeper_that_reads_slowly(application, make_attempt, make_experiment, tmp_path) -> None:
    from functools import partial

    from django.utils import timezone

    from nniweb.experiments.launch.code_archives import keep_folder
    from tests.nniweb.middleware.test_backpressure import Request, handle_reply

    (tmp_path / "train.py").write_text("print(1)")
    experiment = make_experiment(code=keep_folder(tmp_path, timezone.now()))
    make_attempt(experiment)

    class FullConnection(Request):
        def registerProducer(self, producer: Any, streaming: bool) -> None:
            super().registerProducer(producer, streaming)
            producer.pauseProducing()

    async def download() -> None:
        request = FullConnection()
        answering = asyncio.ensure_future(application(
            {"type": "http", "method": "GET", "path": f"{contract.URL_PREFIX}experiments/{experiment.public_id}/code",
             "headers": [(b"authorization", b"Bearer token")]}, None, partial(handle_reply, request)))
        async with asyncio.timeout(20):
            while request.producer is None:
                await asyncio.sleep(0.01)
        await asyncio.wait([answering], timeout=0.2)
        assert not answering.done()
        request.producer.resumeProducing()
        await answering
        assert request.sent[-1]["body"] == b""

    asyncio.run(download())


def test_a_kept_file_is_stored_under_its_name_and_replaced_when_sent_again(application, make_attempt) -> None:
    from django.core.files.storage import default_storage

    attempt = make_attempt()
    for content in (b"first", b"second"):
        assert call(application, "PUT", f"trials/{attempt.job_name}/files/out/model.bin", content)[0] == 200
    file = TrialFile.objects.get()
    assert (file.name, file.size, default_storage.open(file.storage_path).read()) == ("out/model.bin", 6, b"second")


@pytest.mark.parametrize(("token", "length", "status"), [("wrong", 60_000_000, 401), ("token", 70_000_000, 413)])
def test_a_large_file_is_refused_before_it_is_read(application, make_attempt, token: str, length: int,
                                                   status: int) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body is read")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(application({
        "type": "http", "method": "PUT", "path": f"{contract.URL_PREFIX}trials/{make_attempt().job_name}/files/model",
        "headers": [(b"authorization", f"Bearer {token}".encode()), (b"content-length", str(length).encode())],
    }, receive, send))
    assert sent[0]["status"] == status


@pytest.mark.parametrize("headers", [[(b"content-length", b"1000000")], []], ids=["with its length", "without"])
def test_a_large_report_with_a_wrong_token_is_refused_before_it_is_read(application, make_attempt, headers) -> None:
    sent: list[Any] = []
    read = 0

    async def receive() -> Any:
        nonlocal read
        read += 50_000
        return {"type": "http.request", "body": b" " * 50_000, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(application({
        "type": "http", "method": "POST", "path": f"{contract.URL_PREFIX}trials/{make_attempt().job_name}/reports",
        "headers": [(b"authorization", b"Bearer wrong"), *headers]}, receive, send))
    assert sent[0]["status"] == 401
    assert read <= (0 if headers else 100_000)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "x" * 1001])
def test_a_files_name_cannot_leave_the_folder(application, make_attempt, name: str) -> None:
    attempt = make_attempt()
    assert call(application, "PUT", f"trials/{attempt.job_name}/files/{name}", b"x")[0] == 400
    assert TrialFile.objects.count() == 0


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "nothing", 404), ("GET", "trials/abc/reports", 405), ("POST", "trials/../reports", 404)])
def test_other_addresses_are_not_served(application, db, method: str, path: str, status: int) -> None:
    assert call(application, method, path)[0] == status


def test_closing_stores_what_was_taken_and_the_next_report_starts_it_again(application, make_attempt) -> None:
    attempt = make_attempt()
    path = f"trials/{attempt.job_name}/reports"
    assert call(application, "POST", path, document(STARTED))[0] == 200
    application.group_commit.close()
    assert call(application, "POST", path, document(metric(2)))[0] == 200


def test_a_database_that_is_away_is_answered_with_503_and_the_report_is_taken_later(application, make_attempt,
                                                                                    monkeypatch) -> None:
    from django.db import OperationalError

    from nniweb.experiments.ingest import reports

    attempt = make_attempt()
    path = f"trials/{attempt.job_name}/reports"
    real = reports._store

    def full(deliveries, **more):
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(reports, "_store", full)
    status, headers, _ = call(application, "POST", path, document(STARTED))
    assert (status, headers["retry-after"]) == (503, "1")
    monkeypatch.setattr(reports, "_store", real)
    assert call(application, "POST", path, document(STARTED))[0] == 200


def test_a_file_is_asked_for_again_while_the_database_only_reads(application, make_attempt, monkeypatch) -> None:
    attempt = make_attempt()
    path = f"trials/{attempt.job_name}/files/model.bin"

    def read_only(self, *args, **more):
        raise InternalError("cannot execute INSERT in a read-only transaction") \
            from psycopg.errors.ReadOnlySqlTransaction()

    with monkeypatch.context() as after_a_fail_over:
        after_a_fail_over.setattr(TrialFile, "save", read_only)
        status, headers, _ = call(application, "PUT", path, b"x")
    assert (status, headers["retry-after"]) == (503, "2")
    assert call(application, "PUT", path, b"x")[0] == 200


def test_a_file_that_cannot_be_stored_now_is_asked_for_again_and_leaves_nothing_behind(application, make_attempt,
                                                                                       monkeypatch) -> None:
    from django.core.files.storage import FileSystemStorage, default_storage

    attempt = make_attempt()
    real = FileSystemStorage._save

    def full(self, name, content):
        real(self, name, content)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileSystemStorage, "_save", full)
    assert call(application, "PUT", f"trials/{attempt.job_name}/files/model.bin", b"x")[0] == 503
    assert default_storage.listdir(f"trials/{attempt.job_name}")[1] == []
    monkeypatch.setattr(FileSystemStorage, "_save", real)
    assert call(application, "PUT", f"trials/{attempt.job_name}/files/model.bin", b"x")[0] == 200
