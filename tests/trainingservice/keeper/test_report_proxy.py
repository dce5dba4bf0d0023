"""Requests that an agent passes on: what goes to the server, and what does not."""

import base64
import json
import queue
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.fakes.ssh_machine import free_port
from trainingservice.keeper import report_proxy
from trainingservice.keeper.report_proxy import ReportProxy
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.receiver.receiver_http import Answer
from trialkeeper import contract


class Answers:
    def __init__(self):
        self.come: queue.Queue = queue.Queue()

    def answer(self, relay: int, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.come.put((relay, status, dict(headers), body))


@pytest.fixture
def receiver():
    with KeeperReceiver(installation="test") as receiver:
        yield receiver


@pytest.fixture
def answers():
    return Answers()


@pytest.fixture
def desk(receiver, answers):
    dead = f"http://127.0.0.1:{free_port()}"
    desk = ReportProxy(lambda: (dead, receiver.url))
    desk.serve(answers)
    yield desk
    desk.close()


def ask(desk, path, body=b"", method="POST", **headers):
    desk.hear({"event": "relay", "relay": 7, "method": method, "path": path, "headers": headers, "length": len(body)})
    for begin in range(0, len(body), 10):
        desk.hear({"event": "relay", "relay": 7, "data": base64.b64encode(body[begin:begin + 10]).decode()})


def test_a_report_goes_to_the_first_address_that_answers_and_its_answer_back(desk, answers, receiver):
    access = receiver.access_for("attempt")
    report = b'{"keeper": {"version": 1, "journal_id": "j", "pid": 1, "host": "h"}, "sent_at": 1.0, "entries": []}'
    ask(desk, contract.URL_PREFIX + "trials/attempt/reports", report, authorization=f"Bearer {access.token}")
    number, status, _, body = answers.come.get(timeout=90)
    assert (number, status) == (7, 200)
    assert b'"installation": "test"' in body.replace(b'":"', b'": "')
    assert desk.answered_at is not None


def test_a_refusal_of_the_server_goes_back_as_it_is(desk, answers):
    ask(desk, contract.URL_PREFIX + "trials/attempt/reports", b"{}", authorization="Bearer wrong")
    assert answers.come.get(timeout=90)[1] == 401


@pytest.mark.parametrize(("method", "path"), [
    ("POST", "/api/v1/experiments/"), ("DELETE", contract.URL_PREFIX + "trials/a/job"), ("GET", "/admin/"),
    ("GET", contract.URL_PREFIX + "../../admin/"), ("GET", "http://elsewhere/" + contract.URL_PREFIX + "x"),
    ("GET", contract.URL_PREFIX + "trials/a?next=b"),
])
def test_nothing_but_the_keepers_protocol_is_passed_on(desk, answers, method, path):
    ask(desk, path, method=method)
    assert answers.come.get(timeout=90)[1] == 403
    assert desk.answered_at is None


def test_where_no_server_answers_the_keeper_is_told_so(answers):
    desk = ReportProxy(lambda: (f"http://127.0.0.1:{free_port()}",))
    desk.serve(answers)
    ask(desk, contract.URL_PREFIX + "trials/attempt/job", method="GET")
    assert answers.come.get(timeout=90)[1] == 503
    desk.close()


def test_a_keeper_that_goes_away_in_the_middle_is_forgotten(desk, answers):
    path = contract.URL_PREFIX + "trials/attempt/reports"
    desk.hear({"event": "relay", "relay": 3, "method": "POST", "path": path, "headers": {}, "length": 100})
    desk.hear({"event": "relay", "relay": 3, "gone": True})
    desk.hear({"event": "relay", "relay": 3, "data": base64.b64encode(b"x" * 100).decode()})
    ask(desk, path, b"{}")
    assert answers.come.get(timeout=90)[0] == 7
    assert answers.come.empty()


def quiet_report(desk, number, job_name, token, entries=b"[]"):
    body = b'{"keeper": {"version": 1, "journal_id": "j"}, "sent_at": 1.0, "entries": %s}' % entries
    desk.hear({"event": "relay", "relay": number, "method": "POST",
               "path": f"{contract.URL_PREFIX}trials/{job_name}/reports",
               "headers": {"authorization": f"Bearer {token}"}, "length": len(body)})
    desk.hear({"event": "relay", "relay": number, "data": base64.b64encode(body).decode()})


@pytest.fixture
def asked(monkeypatch):
    """The last part of the path of each request that a server has answered."""
    paths: list[str] = []
    ask_session = report_proxy.ServerSession.ask

    def counted(session, method, url, headers, body):
        answer = ask_session(session, method, url, headers, body)
        paths.append(url.rpartition("/")[2])
        return answer

    monkeypatch.setattr(report_proxy.ServerSession, "ask", counted)
    return paths


def test_reports_without_entries_are_passed_on_together_and_each_keeper_has_its_own_answer(
        desk, answers, receiver, asked, monkeypatch):
    monkeypatch.setattr(report_proxy, "GATHER", 1.0)
    tokens = [receiver.access_for(f"attempt{number}").token for number in range(20)]
    receiver.order_stop("attempt3", "it was canceled")
    quiet_report(desk, 99, "attempt0", "wrong")
    for number, token in enumerate(tokens):
        quiet_report(desk, number, f"attempt{number}", token)
    come = {}
    for _ in range(21):
        number, status, _, body = answers.come.get(timeout=90)
        come[number] = status, json.loads(body)
    assert {number: status for number, (status, _) in come.items()} == {**dict.fromkeys(range(20), 200), 99: 401}
    assert [number for number, (_, answer) in come.items() if answer.get("orders")] == [3]
    assert come[5][1]["installation"] == "test"
    assert come[5][1]["accepted"] == 0


def test_one_request_is_enough_for_them(desk, answers, receiver, asked, monkeypatch):
    monkeypatch.setattr(report_proxy, "GATHER", 1.0)
    for number in range(20):
        quiet_report(desk, number, f"attempt{number}", receiver.access_for(f"attempt{number}").token)
    assert {answers.come.get(timeout=90)[1] for _ in range(20)} == {200}
    assert asked == ["several"]


def test_a_server_that_does_not_take_several_gets_each_of_them_alone(desk, answers, receiver, asked, monkeypatch):
    monkeypatch.setattr(report_proxy, "GATHER", 0.5)
    monkeypatch.setattr(KeeperReceiver, "_post_several", lambda *_: Answer(404, {"installation": "test"}))
    tokens = [receiver.access_for(f"attempt{number}").token for number in range(3)]
    for _ in range(2):
        for number, token in enumerate(tokens):
            quiet_report(desk, number, f"attempt{number}", token)
        assert {answers.come.get(timeout=90)[1] for _ in range(3)} == {200}
    assert asked.count("several") == 1, "it is not asked again for a while"


def test_a_report_with_entries_waits_for_no_other(desk, answers, receiver, asked, monkeypatch):
    monkeypatch.setattr(report_proxy, "GATHER", 60.0)
    entry = b'[{"n": 1, "at": 1.0, "type": "started", "pid": 1, "host": "h"}]'
    quiet_report(desk, 1, "attempt", receiver.access_for("attempt").token, entry)
    assert answers.come.get(timeout=50)[1] == 200
    assert asked == ["reports"]


def begin(desk, number, size):
    """A request of which so many bytes have come, and one is missing."""
    desk.hear({"event": "relay", "relay": number, "method": "PUT", "headers": {}, "length": size + 1,
               "path": contract.URL_PREFIX + "trials/attempt/files/x"})
    desk.hear({"event": "relay", "relay": number, "data": base64.b64encode(bytes(size)).decode()})


def test_requests_that_are_begun_and_not_ended_take_a_bounded_room_and_more_have_to_come_again(
        desk, answers, receiver, monkeypatch):
    """Any process of the trials' user on a machine can begin them, without a token."""
    monkeypatch.setattr(report_proxy, "MOST_HELD", 10_000)
    for number in range(20):
        begin(desk, number, 900)
    come = [answers.come.get(timeout=90) for _ in range(10)]
    assert {(status, headers["Retry-After"]) for _, status, headers, _ in come} == {(503, "5")}
    assert desk._held <= 10_000
    for number in range(20):
        desk.hear({"event": "relay", "relay": number, "gone": True})
    assert (desk._held, desk._requests) == (0, set())
    token = receiver.access_for("attempt").token
    for _ in range(3):
        quiet_report(desk, 30, "attempt", token)
        assert answers.come.get(timeout=90)[1] == 200
    assert desk._held == 0


def test_very_many_small_requests_have_a_bound_too(desk, answers, monkeypatch):
    monkeypatch.setattr(report_proxy, "MOST_REQUESTS", 5)
    for number in range(6):
        begin(desk, number, 1)
    assert answers.come.get(timeout=90)[:2] == (5, 503)


class CountingServer(ThreadingHTTPServer):
    """Answers everything with 200. ``goes_after``: requests after which it ends a connection without saying so."""

    daemon_threads = True

    def __init__(self, goes_after: int) -> None:
        super().__init__(("127.0.0.1", 0), self._handler())
        self.goes_after, self.connections = goes_after, 0
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                server.connections += 1
                self.answered = 0

            def do_GET(self) -> None:
                self.answered += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                self.close_connection = self.answered >= server.goes_after

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.mark.parametrize(("goes_after", "connections"), [(100, 1), (1, 5)])
def test_requests_share_a_connection_as_long_as_the_server_keeps_it(answers, goes_after, connections):
    server = CountingServer(goes_after)
    desk = ReportProxy(lambda: (server.url,))
    desk.serve(answers)
    try:
        for _ in range(5):
            ask(desk, contract.URL_PREFIX + "trials/attempt/job", method="GET")
            assert answers.come.get(timeout=90)[1] == 200
        assert server.connections == connections
    finally:
        desk.close()
        server.shutdown()
        server.server_close()
