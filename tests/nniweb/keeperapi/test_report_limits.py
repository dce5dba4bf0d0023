"""A keeper that floods waits; nobody else does, and nothing of what it sends is lost."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from nniweb.experiments.models import Attempt, Metric, TrialFile, TrialOutput
from nniweb.keeperapi import job_files
from nniweb.keeperapi.application import KeeperApplication
from nniweb.keeperapi.report_limits import (
    FORGET_AFTER,
    MOST_BODIES,
    MOST_SENDERS,
    REFUSED_A_SECOND,
    REFUSED_BURST,
    ReportLimits,
)
from tests.fakes.hand_set_clock import HandSetClock
from trialkeeper import contract

GREEDY, MODEST = ("greedy", "a"), ("modest", "b")


@pytest.fixture
def clock() -> HandSetClock:
    return HandSetClock()


def test_a_burst_goes_through_then_only_so_many_a_second_and_others_are_not_affected(clock: HandSetClock) -> None:
    limits = ReportLimits(5, 0, clock)
    assert [limits.seconds_to_wait(GREEDY, "x") for _ in range(50)] == [0.0] * 50
    assert limits.seconds_to_wait(GREEDY, "x") == pytest.approx(0.2)
    assert limits.seconds_to_wait(MODEST, "x") == 0
    clock.now += 1
    assert [limits.seconds_to_wait(GREEDY, "x") == 0 for _ in range(6)] == [True] * 5 + [False]


def test_many_bytes_are_waited_for(clock: HandSetClock) -> None:
    limits = ReportLimits(0, 1, clock)
    assert limits.seconds_to_wait(GREEDY, "x") == 0
    limits.sent(GREEDY, 13_000_000)
    assert limits.seconds_to_wait(GREEDY, "x") == pytest.approx(3.0)
    clock.now += 3
    assert limits.seconds_to_wait(GREEDY, "x") == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", [("content-length", "1000000"), ("transfer-encoding", "chunked")], ids=str)
def test_one_trial_has_a_few_large_bodies_in_memory_at_once(make_attempt, how: tuple[str, str]) -> None:
    """Each is held until it is whole, and who sends it may take hours."""
    attempt, other = make_attempt(), make_attempt()
    application = KeeperApplication()
    application.limits = ReportLimits(50, 8)
    asked: list[str] = []

    async def put(name: str, job_name: str, go: asyncio.Event) -> int:
        answers: list[Any] = []
        pieces = [b"x" * 500_000, b"x" * 500_000]

        async def receive() -> Any:
            asked.append(name)
            if len(pieces) == 1:
                await go.wait()
            return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            answers.append(message)

        headers = [(b"authorization", b"Bearer token"), (how[0].encode(), how[1].encode())]
        await application({"type": "http", "method": "PUT", "headers": headers,
                           "path": f"{contract.URL_PREFIX}trials/{job_name}/files/{name}"}, receive, send)
        return int(answers[0]["status"])

    async def several() -> None:
        go = asyncio.Event()
        begun = [asyncio.ensure_future(put(f"a{number}", attempt.job_name, go)) for number in range(MOST_BODIES)]
        await asyncio.sleep(0)
        assert await put("more", attempt.job_name, go) == 429
        others = asyncio.ensure_future(put("other", other.job_name, go))
        go.set()
        assert await asyncio.gather(*begun, others) == [200] * (MOST_BODIES + 1)
        assert await put("again", attempt.job_name, go) == 200

    try:
        asyncio.run(several())
    finally:
        application.group_commit.close()
    assert "more" not in asked


def after_a_burst_of_forged_calls(clock: HandSetClock, status: int) -> ReportLimits:
    """All from the address of a keeper, and answered with this status."""
    limits = ReportLimits(50, 0, clock)
    assert limits.seconds_to_wait(MODEST, "10.0.0.1") == 0
    limits.answered(MODEST, "10.0.0.1", 200)
    for number in range(int(REFUSED_BURST)):
        forged = (MODEST[0], f"guess {number}")
        assert limits.seconds_to_wait(forged, "10.0.0.1") == 0
        limits.answered(forged, "10.0.0.1", status)
    return limits


def test_forged_calls_wait_for_their_address_and_not_those_whose_names_they_use(clock: HandSetClock) -> None:
    limits = after_a_burst_of_forged_calls(clock, 401)
    assert limits.seconds_to_wait((MODEST[0], "another guess"), "10.0.0.1") > 0
    assert limits.seconds_to_wait(MODEST, "10.0.0.1") == 0, "whose token was right before"
    assert limits.seconds_to_wait(("new", "c"), "10.0.0.2") == 0, "who comes from elsewhere"


@pytest.mark.parametrize("status", [400, 401, 404, 405, 413])
def test_refused_calls_of_strangers_count_for_their_address_whatever_is_wrong_with_them(clock: HandSetClock, status: int
                                                                                       ) -> None:
    limits = after_a_burst_of_forged_calls(clock, status)
    assert limits.seconds_to_wait((MODEST[0], "another guess"), "10.0.0.1") > 0
    for _ in range(100):
        limits.answered(MODEST, "10.0.0.1", 400)  # a keeper's own mistake is no guess
    clock.now += 0.5 / REFUSED_A_SECOND
    assert limits.seconds_to_wait((MODEST[0], "another guess"), "10.0.0.1") <= 1 / REFUSED_A_SECOND


def test_however_many_tokens_are_made_up_no_keeper_is_forgotten_for_them(clock: HandSetClock) -> None:
    """One that is forgotten counts as a stranger, and waits with those who come from its address."""
    limits = ReportLimits(50, 0, clock)
    limits.seconds_to_wait(MODEST, "10.0.0.1")
    limits.answered(MODEST, "10.0.0.1", 200)
    for number in range(MOST_SENDERS + int(REFUSED_BURST)):
        forged = (MODEST[0], f"guess {number}")
        address = "10.0.0.1" if number >= MOST_SENDERS else f"10.1.{number // 256}.{number % 256}"
        assert limits.seconds_to_wait(forged, address) == 0
        limits.answered(forged, address, 401)
    assert limits.seconds_to_wait(("stranger", "c"), "10.0.0.1") > 0
    assert limits.seconds_to_wait(MODEST, "10.0.0.1") == 0
    assert len(limits._strangers) <= MOST_SENDERS


def test_a_whole_network_of_ipv6_is_one_address(clock: HandSetClock) -> None:
    limits = ReportLimits(50, 0, clock)
    for number in range(int(REFUSED_BURST)):
        forged, address = (MODEST[0], f"guess {number}"), f"2001:db8::{number:x}"
        assert limits.seconds_to_wait(forged, address) == 0
        limits.answered(forged, address, 401)
    assert limits.seconds_to_wait((MODEST[0], "another guess"), "2001:db8::ffff") > 0
    assert limits.seconds_to_wait((MODEST[0], "another guess"), "2001:db8:0:1::1") == 0


@pytest.mark.parametrize("megabytes", [0, 1])
def test_keepers_that_speak_no_more_are_forgotten(clock: HandSetClock, megabytes: int) -> None:
    limits = ReportLimits(50, megabytes, clock)
    limits.seconds_to_wait(MODEST, "x")
    limits.answered(MODEST, "x", 200)
    for number in range(3000):
        short = (f"trial{number}", f"token{number}")
        limits.seconds_to_wait(short, f"10.0.{number // 250}.{number % 250}")
        limits.sent(short, 2000)
        limits.answered(short, "x", 200)
        clock.now += 0.1
        if number % 100 == 0:  # one that still runs says so each ten seconds
            assert limits.seconds_to_wait(MODEST, "x") == 0
    a_minute = FORGET_AFTER / 0.1
    assert len(limits._callers) <= a_minute + 2
    assert len(limits._addresses) <= a_minute + 2
    assert MODEST in limits._callers


def test_who_owes_bytes_is_not_forgotten_before_they_are_paid(clock: HandSetClock) -> None:
    limits = ReportLimits(50, 1, clock)
    limits.seconds_to_wait(GREEDY, "x")
    limits.sent(GREEDY, 210_000_000)  # ten seconds' worth was there
    clock.now += 3 * FORGET_AFTER
    limits.seconds_to_wait(MODEST, "x")
    assert limits.seconds_to_wait(GREEDY, "x") == pytest.approx(20.0)


def test_without_limits_nobody_waits(clock: HandSetClock) -> None:
    limits = ReportLimits(0, 0, clock)
    for _ in range(100):
        assert limits.seconds_to_wait(GREEDY, "x") == 0
        limits.sent(GREEDY, 10**9)
        limits.answered(GREEDY, "x", 200)


# --- over the keepers' doors ---------------------------------------------------------------


@pytest.fixture
def application(transactional_db: None) -> Any:
    application = KeeperApplication()
    yield application
    application.group_commit.close()


def send_entries(application: KeeperApplication, job: str, *entries: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    report = {"keeper": {"version": 1, "journal_id": "j"}, "entries": entries}
    return send(application, job, json.dumps(report).encode())


def send(application: KeeperApplication, job: str, body: bytes, *, token: str = "token", encoding: str = "",
         method: str = "POST", place: str = "reports") -> tuple[int, dict[str, str], Any]:
    sent: list[Any] = []
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-length", str(len(body)).encode())]
    if encoding:
        headers.append((b"content-encoding", encoding.encode()))

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def answer(message: Any) -> None:
        sent.append(message)

    asyncio.run(application({"type": "http", "method": method, "path": f"{contract.URL_PREFIX}trials/{job}/{place}",
                             "headers": headers}, receive, answer))
    return (sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]},
            json.loads(sent[1]["body"] or "null"))


def metric(n: int, value: str = "1", kind: str = contract.PERIODICAL) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "metric", "kind": kind, "sequence": n, "value": value}


def test_a_flood_is_answered_with_when_to_come_again_and_then_taken(application: KeeperApplication, clock: HandSetClock,
                                                                   make_attempt: Any) -> None:
    flooding, other = make_attempt(), make_attempt()
    application.limits = ReportLimits(0.2, 0, clock)
    assert [send_entries(application, flooding.job_name, metric(n))[0] for n in (1, 2)] == [200, 200]
    status, headers, body = send_entries(application, flooding.job_name, metric(3))
    assert (status, headers["retry-after"], body["error"]) == (429, "5", contract.ERROR_BUSY)
    assert send_entries(application, other.job_name, metric(1))[0] == 200
    clock.now += 5
    assert send_entries(application, flooding.job_name, metric(3))[0] == 200
    assert Metric.objects.filter(attempt=flooding).count() == 3


def test_of_gigabytes_a_part_is_kept_and_said_and_the_final_result_and_the_end_are_always(
        application: KeeperApplication, make_attempt: Any, settings: Any, caplog: Any) -> None:
    settings.TRIAL_BYTES = 2_000_000
    attempt = make_attempt()
    output = {"at": 1.0, "type": "output", "stream": "stdout", "data": "x" * 60_000}
    left_out = []
    for n in range(1, 61):
        status, _, body = send_entries(application, attempt.job_name, {**output, "n": n, "offset": n * 60_000})
        assert (status, body["accepted"]) == (200, n), "it is not sent again"
        left_out += body["rejected"]
    assert sum(len(row.data) for row in TrialOutput.objects.all()) <= 2_000_000
    assert len(left_out) == 60 - TrialOutput.objects.count() > 20
    _, _, body = send_entries(application, attempt.job_name, metric(61, "0.1"), metric(62, "0.9", contract.FINAL),
                              {"n": 63, "at": 1.0, "type": "ended", "exit_code": 0, "signal": None,
                               "reason": "exited", "message": "", "duration": 1.0})
    assert [each["n"] for each in body["rejected"]] == [61]
    attempt.trial.refresh_from_db()
    assert (attempt.trial.status, attempt.trial.final_number) == ("SUCCEEDED", 0.9)
    assert len([record for record in caplog.records if "NNIWEB_TRIAL_MB" in record.getMessage()]) == 1


def test_a_report_with_an_id_of_any_length_disturbs_nobody(application: KeeperApplication, make_attempt: Any) -> None:
    attempt = make_attempt()
    body = json.dumps({"keeper": {"version": 1, "journal_id": "j" * 65}, "entries": [metric(1)]}).encode()

    async def both() -> list[int]:
        answers = await asyncio.gather(*(application.group_commit.submit(attempt.job_name, _hash(), each, "")
                                         for each in (body, body.replace(b"j" * 65, b"k"))))
        return [answer.status for answer in answers]

    assert asyncio.run(both()) == [400, 200]


def _hash() -> str:
    from nniweb.experiments.models.account import hash_of

    return hash_of("token")


def test_a_packed_report_is_unpacked_only_for_a_token_that_opens_the_job(application: KeeperApplication,
                                                                         make_attempt: Any) -> None:
    attempt, packed = make_attempt(), gzip.compress(b"no report")
    assert send(application, attempt.job_name, packed, token="token", encoding="gzip")[0] == 400
    assert send(application, attempt.job_name, packed, token="guess", encoding="gzip")[0] == 401
    assert send(application, "nosuchjob", packed, token="token", encoding="gzip")[0] == 404


def test_a_kept_file_may_have_any_name(application: KeeperApplication, make_attempt: Any) -> None:
    attempt = make_attempt()
    status, _, _ = send(application, attempt.job_name, b"content", method="PUT", place="files/odd/a\nb\r.txt")
    assert status == 200
    assert [file.name for file in TrialFile.objects.all()] == ["odd/a\nb\r.txt"]


def test_only_so_many_files_of_one_trial_are_kept(transactional_db: None, make_attempt: Any,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "MOST_FILES", 3)
    monkeypatch.setattr(job_files, "MOST_BYTES", 100)
    attempt: Attempt = make_attempt()
    for number in range(3):
        job_files.keep_file(attempt.job_name, _hash(), f"{number}.bin", b"x" * 20)
    with pytest.raises(job_files.RefusedReport) as refused:
        job_files.keep_file(attempt.job_name, _hash(), "3.bin", b"x")
    assert refused.value.status == 413
    with pytest.raises(job_files.RefusedReport):
        job_files.keep_file(attempt.job_name, _hash(), "2.bin", b"x" * 61)
    job_files.keep_file(attempt.job_name, _hash(), "2.bin", b"x" * 60)
    assert TrialFile.objects.count() == 3
