"""The agent's socket for keepers that cannot reach the server, spoken to as a keeper does."""

import base64
import http.client
import json
import os
import selectors
import socket
import threading
from pathlib import Path

import pytest

from trialkeeper.access import Access
from trialkeeper.relay import Relay
from trialkeeper.server_connection import ServerAway, ServerConnection


class RelayThread:
    """A relay with its selector on a thread, as the agent's loop is; ``messages`` is what it sent."""

    def __init__(self, file) -> None:
        self.file, self.messages = str(file), []
        self.selector = selectors.DefaultSelector()
        self.relay = Relay(self.file, self.selector, self._send)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _send(self, message) -> None:
        self.messages.append(message)
        number = message["relay"]
        got = b"".join(base64.b64decode(part["data"]) for part in self.messages
                       if part["relay"] == number and "data" in part)
        first = next((part for part in self.messages if part["relay"] == number and "method" in part), None)
        if first is not None and len(got) == first["length"] and not message.get("gone"):
            body = json.dumps({"installation": "test", "length": len(got), "path": first["path"]}).encode()
            self.relay.answer(number, 200, {"Content-Type": "application/json"}, body)

    def _loop(self) -> None:
        while not self.ended.is_set():
            for key, _ in self.selector.select(0.05):
                key.data()

    def close(self) -> None:
        self.ended.set()
        self.thread.join()
        self.relay.close()


@pytest.fixture
def relay(tmp_path):
    thread = RelayThread(tmp_path / "relays" / "relay.json")
    yield thread
    thread.close()


def connection(relay, *urls):
    return ServerConnection(Access(urls=urls, token="secret", relay_file=relay.file))


def counts(answer):
    return "" if answer.status == 200 else "no"


def dead_url():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_where_no_address_answers_the_agent_is_asked(relay):
    server = connection(relay, dead_url())
    answer = server.call("POST", "trials/a/reports", counts, b"x" * 3000)
    assert answer.document == {"installation": "test", "length": 3000, "path": "/api/trialkeeper/v1/trials/a/reports"}
    assert server.way == "relay"
    assert relay.messages[0]["headers"]["authorization"] == "Bearer secret"
    assert server.call("GET", "trials/a/job", counts).document["length"] == 0


def test_a_large_body_goes_in_pieces(relay, tmp_path):
    (tmp_path / "big").write_bytes(os.urandom(2_000_000))
    with open(tmp_path / "big", "rb") as stream:
        answer = connection(relay).call("PUT", "trials/a/files/big", counts, stream, {"Content-Length": "2000000"})
    assert answer.document["length"] == 2_000_000
    assert len(relay.messages) > 2


def test_a_new_agent_is_found_by_the_file(relay):
    server = connection(relay)
    server.call("GET", "trials/a/job", counts)
    before = Access(relay_file=relay.file).url_file_stamp()
    again = RelayThread(relay.file)
    try:
        assert Access(relay_file=relay.file).url_file_stamp() != before
        assert server.call("GET", "trials/a/job", counts).status == 200
        assert again.messages
    finally:
        again.close()


def test_without_an_agent_the_server_is_away(relay, tmp_path):
    nobody = ServerConnection(Access(token="t", relay_file=str(tmp_path / "none.json")))
    with pytest.raises(ServerAway, match="no address of a server is known"):
        nobody.call("GET", "trials/a/job", counts)


def test_the_socket_is_the_user_s_alone_and_goes_with_the_agent(tmp_path):
    thread = RelayThread(tmp_path / "relay.json")
    path = json.loads((tmp_path / "relay.json").read_text())["socket"]
    assert os.stat(path).st_mode & 0o077 == 0
    assert os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
    thread.close()
    assert not os.path.exists(os.path.dirname(path))
    assert not (tmp_path / "relay.json").exists()


def test_what_is_no_request_gets_400(relay):
    path = json.loads(Path(relay.file).read_text())["socket"]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(b"good day\r\n\r\n")
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert answer.status == 400
