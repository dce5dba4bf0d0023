"""The log of a job, whatever the job has printed."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from trainingservice.azureml import run_log
from trainingservice.azureml.run_log import LogJournal, RunHistory
from trainingservice.azureml.workspace import Workspace
from trialkeeper.pod import MARK


class Logs(ThreadingHTTPServer):
    """Serves ``content`` from any byte on; None: zeros without end."""

    daemon_threads = True

    def __init__(self) -> None:
        self.content: bytes | None = b""
        self.takes_ranges = True
        super().__init__(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self.server_port}/log"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")) if server.takes_ranges else None
                self.send_response(200 if found is None else 206)
                if server.content is None:
                    self.end_headers()
                    while True:
                        self.wfile.write(bytes(64 * 1024))
                content = server.content[0 if found is None else int(found[1]):]
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def handle_error(self, *_: object) -> None:
        """Who asks may hang up."""


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    monkeypatch.setattr(run_log, "MOST_BYTES", 1000)
    server = Logs()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def history() -> RunHistory:
    return RunHistory(cast("Workspace", None), "")


def marked(**document: object) -> bytes:
    return MARK.encode() + base64.b64encode(json.dumps(document).encode()) + b"\n"


def test_of_a_log_without_an_end_a_piece_is_read(logs: Logs, history: RunHistory) -> None:
    logs.content = None
    assert history.read(logs.address, 0) == bytes(1000)
    assert history.read_end(logs.address) == bytes(1000)


@pytest.mark.parametrize("takes_ranges", [True, False])
def test_a_long_log_is_read_in_pieces_and_its_end_is_found(logs: Logs, history: RunHistory, takes_ranges: bool) -> None:
    logs.takes_ranges = takes_ranges
    logs.content = b"".join(b"%08d\n" % number for number in range(1000))
    assert history.read(logs.address, 4500) == logs.content[4500:5500]
    assert history.read_end(logs.address) == logs.content[-1000:]


def test_reports_that_follow_a_very_long_line_are_found(logs: Logs, history: RunHistory) -> None:
    logs.content = marked(journal_id="j") + b"x" * 5000 + b"\n" + marked(n=1, type="started")
    journal = LogJournal(history, cast("Workspace", None), "job")
    journal._address = logs.address
    entries: list[dict[str, object]] = []
    for _ in range(8):
        journal_id, _, new = journal.read()
        entries += cast("list[dict[str, object]]", new)
    assert (journal_id, entries) == ("j", [{"n": 1, "type": "started"}])
