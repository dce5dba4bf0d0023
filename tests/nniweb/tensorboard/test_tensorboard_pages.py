"""Pages of a TensorBoard: for whom, what is passed on to it and what comes back, with a server in its place."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from nniweb.experiments.models import Attempt, Experiment, TensorBoard, TensorBoardTicket, User
from nniweb.experiments.secrets.masking import masked
from nniweb.tensorboard import boards, runner
from nniweb.tensorboard.runner import Address

HTML = b"<!doctype html><html><head><title>TensorBoard</title></head><body></body></html>"


class Upstream(ThreadingHTTPServer):
    """Keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), Answers)


class Answers(BaseHTTPRequestHandler):
    server: Upstream
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, {**self.headers}, body))
        is_page = self.path.endswith("/")
        content = HTML if is_page else b"<script>of a trial</script>" * 10_000
        self.send_response(200 if "missing" not in self.path else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Set-Cookie", "sessionid=stolen")
        self.send_header("Location", "https://elsewhere.example")
        self.send_header("Content-Security-Policy", "default-src *")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *arguments: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(runner, "address_of", lambda board: Address(1, "1", server.server_port, "/secret"))
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def board(experiment: Experiment, make_attempt: Callable[..., Attempt], alice: User) -> TensorBoard:
    return boards.start(experiment, [make_attempt(experiment).trial.public_id], alice)


@pytest.fixture
def signed_in() -> Callable[[User], Client]:
    def signed_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client
    return signed_in


def content(answer: Any) -> bytes:
    async def pieces() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])
    return async_to_sync(pieces)()


def opened(client: Client, board: TensorBoard) -> str:
    """The address with a ticket to which its page leads."""
    answer = client.get(f"/tensorboard/{board.public_id}/")
    assert answer.status_code == 302, answer.content
    return str(answer["Location"])


def test_until_it_listens_a_page_says_so_and_comes_again(signed_in: Callable[[User], Client], vera: User,
                                                        board: TensorBoard, nothing_is_started: list[str]) -> None:
    answer = signed_in(vera).get(f"/tensorboard/{board.public_id}/")
    assert answer.status_code == 200
    assert b"is being started" in answer.content
    assert b'http-equiv="refresh"' in answer.content
    assert nothing_is_started == [board.public_id]


def test_one_that_failed_a_moment_ago_says_why_and_does_not_come_again(
        signed_in: Callable[[User], Client], alice: User, board: TensorBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    TensorBoard.objects.update(message="TensorBoard ended by itself (exit status 1). No module named absl")
    monkeypatch.setattr(runner, "address_of", lambda board: None)
    monkeypatch.setattr(runner, "has_failed", lambda board: True)
    answer = signed_in(alice).get(f"/tensorboard/{board.public_id}/")
    assert b"No module named absl" in answer.content
    assert b"refresh" not in answer.content


def test_without_a_sign_in_or_the_right_to_see_the_trials_there_is_no_page(
        signed_in: Callable[[User], Client], charlie: User, board: TensorBoard, upstream: Upstream) -> None:
    made_up = f"/tensorboard/{board.public_id}/{'x' * 32}/"
    for address in (f"/tensorboard/{board.public_id}/", made_up, f"{made_up}data/runs"):
        assert Client().get(address)["Location"].startswith("/sign-in/")
        assert signed_in(charlie).get(address).status_code == 404
    assert Client().post(made_up).status_code == 401
    assert upstream.seen == []


def test_neither_cookies_nor_tokens_reach_it_and_its_own_headers_do_not_come_back(
        signed_in: Callable[[User], Client], alice: User, board: TensorBoard, upstream: Upstream) -> None:
    client = signed_in(alice)
    address = opened(client, board)
    answer = client.post(f"{address}data/plugin/scalars?tag=a%2Fb&x=1", b'{"a": 1}', "application/json",
                         headers={"Authorization": "Token of-a-person", "X-XSRF-Protected": "1", "X-Own": "x"})
    assert content(answer) == b"<script>of a trial</script>" * 10_000
    method, path, headers, body = upstream.seen[0]
    assert (method, path, body) == ("POST", "/secret/data/plugin/scalars?tag=a%2Fb&x=1", b'{"a": 1}')
    assert headers["X-XSRF-Protected"] == "1"
    assert {name.lower() for name in headers}.isdisjoint({"cookie", "authorization", "x-own"})
    assert "Set-Cookie" not in answer
    assert "Location" not in answer
    assert not answer.cookies


def test_what_it_answers_is_shown_in_a_sandbox_without_an_origin(
        signed_in: Callable[[User], Client], alice: User, board: TensorBoard, upstream: Upstream) -> None:
    client = signed_in(alice)
    address = opened(client, board)
    page = client.get(address)
    assert page.content.startswith(b'<!doctype html><html><head><script src="nniweb-storage.js"></script><title>')
    script = client.get(f"{address}nniweb-storage.js")
    assert b"localStorage" in script.content
    for answer in (page, script, client.get(f"{address}data/x"), client.get(f"{address}missing"),
                   client.options(f"{address}data/x")):
        policy = answer["Content-Security-Policy"]
        assert policy.startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in policy
        assert "default-src 'none'" in policy
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Access-Control-Allow-Origin"] == "null"
        assert answer["Cross-Origin-Opener-Policy"] == "unsafe-none"
        assert answer["Referrer-Policy"] == "no-referrer"
        if answer.streaming:
            content(answer)


def test_a_page_without_cookies_is_let_in_by_its_ticket_for_as_long_as_that_holds(
        signed_in: Callable[[User], Client], vera: User, board: TensorBoard, upstream: Upstream) -> None:
    client = signed_in(vera)
    data = f"{opened(client, board)}data/runs"
    nobody = Client()
    assert content(nobody.get(data))
    assert nobody.options(data)["Access-Control-Allow-Headers"] == "*"
    other = TensorBoard.objects.create(experiment=board.experiment, trials=[], created_at=board.created_at,
                                       used_at=board.used_at)
    assert nobody.get(data.replace(board.public_id, other.public_id)).status_code == 302, "it is of one TensorBoard"
    group = vera.groups.get()
    vera.groups.clear()
    assert nobody.get(data)["Location"].startswith("/sign-in/"), "the right was taken away"
    vera.groups.add(group)
    assert content(nobody.get(data))
    client.post("/sign-out/")
    assert nobody.get(data)["Location"].startswith("/sign-in/"), "the session has ended"


@pytest.mark.parametrize("change", ["password", "is_active"])
def test_a_ticket_ends_with_the_account_and_with_its_password(
        signed_in: Callable[[User], Client], vera: User, board: TensorBoard, upstream: Upstream, change: str) -> None:
    data = f"{opened(signed_in(vera), board)}data/runs"
    if change == "password":
        vera.set_password("another one that is long")
    else:
        vera.is_active = False
    vera.save()
    assert Client().get(data)["Location"].startswith("/sign-in/")


def test_the_word_of_a_ticket_is_nowhere_on_the_server_nor_in_its_logs(signed_in: Callable[[User], Client], alice: User,
                                                     board: TensorBoard, upstream: Upstream) -> None:
    word = opened(signed_in(alice), board).split("/")[-2]
    assert len(word) == 32
    assert word not in str(list(TensorBoardTicket.objects.values()))
    assert masked(f"Not Found: /tensorboard/{board.public_id}/{word}/x") \
        == f"Not Found: /tensorboard/{board.public_id}/***/x"


def test_one_that_does_not_answer_is_a_sentence(signed_in: Callable[[User], Client], alice: User, board: TensorBoard,
                                                upstream: Upstream) -> None:
    client = signed_in(alice)
    address = opened(client, board)
    upstream.shutdown()
    upstream.server_close()
    answer = client.get(f"{address}data/runs")
    assert (answer.status_code, b"Open it again" in answer.content) == (502, True)
