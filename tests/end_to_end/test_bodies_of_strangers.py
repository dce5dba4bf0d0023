"""Nobody who is not signed in makes the server store anything, however they send it; who is may upload code."""

from __future__ import annotations

import io
import socket
import sys
import tarfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import requests

from tests.end_to_end.running_server import RunningServer
from tests.nniweb.web_server.conftest import all_of, stored_by

MIB = 2**20
REPORTS = "/api/trialkeeper/v1/trials/nobody/reports"
PLACES = ("POST /sign-in/", "POST /password-reset/", "GET /healthz", "POST /healthz", "GET /readyz",
          f"POST {REPORTS}",
          "PUT /api/trialkeeper/v1/trials/nobody/files/a", "GET /api/trialkeeper/v1/trials/nobody/job",
          "POST /csp-report/", "POST /api/v1/experiments/", "POST /api/v1/nothing/", "POST /admin/login/", "POST /new/",
          "POST /")


class Watched:
    """A server, and what lies in its folder for temporary files."""

    def __init__(self, server: RunningServer, temporary: Path) -> None:
        self.server, self._temporary = server, temporary

    @property
    def stored(self) -> int:
        return stored_by(self.server.pid, self._temporary)

    def send(self, begin: str, body: bytes, *, chunked: bool = False, headers: str = "") -> bytes:
        """The answer; asserts that nothing of the body is stored when all has been sent."""
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {600 * MIB}"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
            try:
                connection.sendall(f"{begin} HTTP/1.1\r\nHost: 127.0.0.1\r\n{framing}\r\n{headers}"
                                   "Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode())
                for place in range(0, len(body), 65536):
                    piece = body[place:place + 65536]
                    connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert self.stored == 0
            return all_of(connection)


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def watched(make_server: Callable[..., RunningServer], temporary: Path) -> Watched:
    return Watched(make_server(env={"TMPDIR": str(temporary)}).start(), temporary)


class ByTheDaphneCommand(RunningServer):
    """One of several web processes."""

    def command(self, program: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "nniweb.asgi:application"]

    def answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/healthz", timeout=90).ok
        except requests.RequestException:
            return False


def test_strangers_are_refused_while_their_bytes_arrive(watched: Watched) -> None:
    watched.server.wait_until(lambda: watched.server.request("GET", "/readyz").status_code == 200)
    before = psutil.Process(watched.server.pid).memory_info().rss
    body = b"x" * 8 * MIB
    bearer = "Authorization: Bearer wrong\r\n"
    for place in PLACES:
        headers = bearer if "trialkeeper" in place else ""
        for chunked in (False, True):
            answer = watched.send(place, body, chunked=chunked, headers=headers)
            # a probe without a length is answered, and what it sends is not read
            fine = (413, 401, 404, 200, 405) if chunked and place.endswith(("/healthz", "/readyz")) else (413, 401, 404)
            assert int(answer[9:12]) in fine, (place, answer)
    for wrong in (bearer, "Authorization: Token nniweb_wrong\r\n", "Cookie: sessionid=wrong\r\n"):
        assert watched.send("POST /api/v1/experiments/", body, headers=wrong).startswith(b"HTTP/1.1 413 ")
    with ThreadPoolExecutor(16) as pool:  # many at once
        answers = list(pool.map(lambda place: watched.send(place, body, chunked=True), ["POST /sign-in/"] * 48))
    assert all(answer.startswith(b"HTTP/1.1 413 ") or answer.endswith(b"(cut)") for answer in answers)
    assert psutil.Process(watched.server.pid).memory_info().rss - before < 80 * MIB
    assert watched.server.request("GET", "/healthz").status_code == 200


@pytest.mark.slow
def test_a_server_started_by_the_daphne_command_is_the_same(tmp_path: Path, temporary: Path) -> None:
    server = ByTheDaphneCommand(tmp_path / "data", {"TMPDIR": str(temporary)})
    try:
        watched = Watched(server.start(), temporary)
        answers = [watched.send("POST /sign-in/", b"x" * MIB, chunked=chunked) for chunked in (False, True)]
        assert [answer[:13] for answer in answers] == [b"HTTP/1.1 413 "] * 2
    finally:
        server.close()


def test_who_may_launch_uploads_code(watched: Watched) -> None:
    text = ("searchSpace: {x: {_type: choice, _value: [1]}}\ntrialCommand: python3 trial.py\ntrialCodeDirectory: .\n"
            "trialConcurrency: 1\nmaxTrialNumber: 1\ntuner: {name: Random}\ntrainingService: {platform: local}\n")
    code = io.BytesIO()
    with tarfile.open(fileobj=code, mode="w:gz", compresslevel=0) as archive:
        for name, content in (("trial.py", b"print(1)\n"), ("data.bin", bytes(20 * MIB))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    answer = watched.server.request("POST", "experiments/check/", data={"config": text},
                                    files={"code": ("code.tar.gz", code.getvalue())}, timeout=60)
    assert answer.status_code == 200, answer.text
    too_much = watched.server.request("POST", "experiments/sampled-points/", data=b"x" * 17 * MIB)
    assert too_much.status_code == 413
    assert "16 MB" in too_much.text
