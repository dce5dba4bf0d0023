"""Requests to REST interfaces: what goes wrong is a sentence, and no sentence holds a query string."""

import contextlib
import logging
import socket
import subprocess
import sys
import threading

import pytest

from tests.fakes.http_double import Answer, HttpDouble
from tests.fakes.tls_certificate import make_certificate
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.rest import rest_client, timed_answers
from trainingservice.rest.rest_client import RestClient

SECRET = {"password": "geheim"}


class Echo(HttpDouble):
    def answer(self, request):
        if request.path == "/moved":
            return Answer(307, b"", headers={"Location": "/here?password=geheim"})
        if request.path == "/elsewhere":
            return Answer(302, b"", headers={"Location": "http://other.example/"})
        if request.path == "/broken":
            return Answer(302, b"", headers={"Location": "http://[::1/"})
        if request.path == "/circle":
            return Answer(302, b"", headers={"Location": "/circle"})
        if request.path == "/large":
            return Answer(200, b"x" * 200_000)
        return Answer(200, {"method": request.method, "body": request.body.decode(), "query": request.query,
                            "authorization": request.headers.get("Authorization")})


@pytest.fixture
def server():
    echo = Echo()
    echo.start()
    yield echo
    echo.close()


@pytest.fixture
def client(server):
    client = RestClient(server.address + "/", "The double", hidden=("password",))
    yield client
    client.close()


def test_a_redirect_keeps_method_and_body(client):
    found = client.call("POST", "moved", body=b"text", params=SECRET).document()
    assert (found["method"], found["body"]) == ("POST", "text")


@pytest.mark.parametrize(("path", "words"), [("elsewhere", "another host (other.example)"), ("circle", "too often"),
                                             ("broken", "address that is not valid")])
def test_a_redirect_that_leads_nowhere_good_is_not_followed(client, path, words):
    with pytest.raises(TemporaryError) as caught:
        client.call("GET", path)
    assert words in str(caught.value)


@pytest.mark.parametrize("is_tls", [True, False])
def test_a_redirect_brings_no_credentials_out_of_tls_or_to_another_port(server, tmp_path, is_tls):
    """So redirects a proxy that ends TLS before a server that knows of none."""
    context, authority = make_certificate(tmp_path)
    first = Echo(context if is_tls else None)
    first.start()
    first.script(Answer(302, b"", headers={"Location": f"{server.address}/here"}))
    client = RestClient(f"{first.address}/", "The double", ca_file=str(authority))
    try:
        with pytest.raises(TemporaryError, match="redirects to "):
            client.call("GET", "x", params=SECRET, headers={"Authorization": "Bearer t"})
    finally:
        client.close()
        first.close()
    assert server.requests == []


def test_a_redirect_to_tls_is_followed(server, tmp_path):
    context, authority = make_certificate(tmp_path)
    behind_tls = Echo(context)
    behind_tls.start()
    server.script(Answer(302, b"", headers={"Location": f"{behind_tls.address}/here"}))
    client = RestClient(server.address + "/", "The double", ca_file=str(authority))
    try:
        assert client.call("GET", "x").document()["method"] == "GET"
    finally:
        client.close()
        behind_tls.close()


def test_an_answer_that_is_made_to_be_slow_is_shown_at_once():
    """In a process of its own: what takes hours cannot be left otherwise."""
    program = ("from trainingservice.rest.rest_client import RestAnswer\n"
               "print(len(RestAnswer(200, '<' * 600_000, 'text/html', 'It').shown()))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90)
    assert (done.stdout, done.stderr) == ("200\n", "")


def test_an_error_that_is_made_to_be_slow_is_told_at_once():
    program = ("from trainingservice.rest.rest_client import _innermost\n"
               "print(len(_innermost(ValueError('<' * 300_000 + 'x' * 300_000))) <= 1000)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_netrc_file_does_not_replace_our_log_in(client, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert client.call("GET", "x", headers={"Authorization": "Bearer t"}).document()["authorization"] == "Bearer t"


@pytest.mark.parametrize(("headers", "pause"), [
    ({}, None), ({"Retry-After": "7"}, 7.0), ({"Retry-After": "1e9"}, 3600.0), ({"Retry-After": "soon"}, None),
    ({"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0.0)])
def test_the_pause_that_is_asked_for_is_handed_on(server, client, headers, pause):
    server.script(Answer(429, "no", "text/html", headers))
    with pytest.raises(TemporaryError) as caught:
        client.call("POST", "x", params=SECRET)
    assert caught.value.retry_after == pause


def test_writing_is_not_repeated_by_itself(server, client):
    server.script(Answer(502, "bad"), 5)
    with pytest.raises(TemporaryError):
        client.call("POST", "x")
    assert len(server.requests) == 1


def test_what_is_no_json_is_shown_without_its_markup(server, client):
    server.script(Answer(200, "<html><h1>Sign in</h1></html>", "text/html; charset=utf-8"))
    with pytest.raises(TemporaryError) as caught:
        client.call("GET", "x").document()
    assert '"Sign in"' in str(caught.value)
    assert "text/html" in str(caught.value)


def test_nobody_at_the_address_is_a_sentence_without_the_query(server, client, caplog):
    caplog.set_level(logging.DEBUG)
    server.close()
    with pytest.raises(TemporaryError) as caught:
        client.call("GET", "x", params=SECRET)
    assert "cannot be reached" in str(caught.value)
    assert "refused" in str(caught.value)
    assert "geheim" not in str(caught.value) + caplog.text
    assert "urllib3" in caplog.text


def test_an_address_that_is_none_is_no_matter_of_waiting():
    with pytest.raises(PermanentError):
        RestClient("http://.example.com/", "It").call("GET", "x")


def test_an_answer_that_is_too_large_is_not_read(client, monkeypatch):
    monkeypatch.setattr(rest_client, "MOST_BYTES", 200_000)
    assert len(client.call("GET", "large").text) == 200_000
    monkeypatch.setattr(rest_client, "MOST_BYTES", 100_000)
    with pytest.raises(TemporaryError, match="answered with more than"):
        client.call("GET", "large")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def sends():
    """Makes a client of a server that sends a beginning, and then pieces without end, each after some seconds."""
    ended = threading.Event()
    made = []

    def serve(listening: socket.socket, beginning: bytes, piece: bytes, pause: float) -> None:
        with listening.accept()[0] as connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(beginning)
            while not ended.wait(pause):
                connection.sendall(piece)

    def make(beginning: bytes, piece: bytes, pause: float) -> RestClient:
        listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=serve, args=(listening, beginning, piece, pause), daemon=True).start()
        client = RestClient(f"http://127.0.0.1:{listening.getsockname()[1]}/", "It")
        made.extend((listening, client))
        return client

    yield make
    ended.set()
    for each in made:
        each.close()


@pytest.mark.parametrize("beginning", [HEAD + b"X-Endless: ", HEAD + b"Content-Length: 1000000\r\n\r\n[",
                                       HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n["])
def test_an_answer_that_comes_a_byte_at_a_time_is_given_up(sends, beginning, monkeypatch):
    monkeypatch.setattr(timed_answers, "PIECES", 0.1)  # so that a busy machine is in time with each piece
    with pytest.raises(TemporaryError, match=r"its answer was not complete within 2 s"):
        sends(beginning, b" ", 0.05).call("POST", "x", timeout=(20, 20))


def test_of_a_redirect_without_an_end_no_more_is_read_than_of_other_answers(sends, monkeypatch):
    monkeypatch.setattr(rest_client, "MOST_BYTES", 1_000_000)
    with pytest.raises(TemporaryError, match="answered with more than"):
        sends(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", bytes(100_000), 0.001).call(
            "POST", "x", timeout=(0.5, 0.5))
