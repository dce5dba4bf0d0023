"""A keeper's server on a real port whose every answer a test can script.

Without a script it behaves as docs/keeper-protocol.md says: takes each entry once, names gaps, gives the attempt
to the first journal. ``then(...)`` scripts the next answer, several calls the next ones.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trialkeeper import chunk_pack, contract


class ScriptedKeeperServer:
    """One attempt's server. ``stop`` and ``start`` keep port and memory: an outage."""

    def __init__(self, job_name: str = "trialaaaaaaa") -> None:
        self.job_name = job_name
        self.token = "right-token"
        self.installation = "installation-1"
        self.entries: list[dict[str, Any]] = []
        self.rejected: list[int] = []
        self.journal_id: str | None = None
        self.reports: list[dict[str, Any]] = []  # every body that arrived, also those that were refused
        self.arrivals: list[float] = []  # their times.monotonic()
        self.encodings: list[str | None] = []
        self.orders: list[dict[str, Any]] = []
        self.gone = False
        self.job: dict[str, Any] | None = None
        self.code: bytes | None = b""  # None: whoever asks is told to come again
        #: What is served before that, one to a request.
        self.codes_before: deque[bytes | None] = deque()
        self.files: dict[str, bytes] = {}
        self.chunks: dict[str, bytes] = {}  # by hash
        self.packs = False  # whether small chunks may come, and go, together
        self.manifests: dict[str, bytes] = {}
        self.refuses_chunks: dict[str, Any] | None = None  # the document of 503 to each chunk, which it has read
        self.calls: list[str] = []
        self.connections = 0
        self.next_report_within: float = 0.3
        self.gather_for: float | None = None
        self.longest_body = contract.MAX_REPORT_BYTES
        self._script: deque[dict[str, Any]] = deque()
        self._changed = threading.Condition()
        self._server: _Server | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Close the port and cut all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.cut_all()

    def then(self, times: int = 1, **answer: Any) -> ScriptedKeeperServer:
        """Script the next ``times`` calls.

        ``status`` and ``document``: answer this; ``installation``: answer rightly, but as somebody else; ``cut``:
        "before" or "after" the report was taken, without an answer; ``delay``: seconds before it is handled.
        """
        with self._changed:
            self._script.extend([answer] * times)
        return self

    def wait_for(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """What ``condition`` returns as soon as it is true; it is asked whenever a call was handled."""
        until = time.monotonic() + seconds
        with self._changed:
            while not (result := condition()):
                left = until - time.monotonic()
                assert left > 0, f"not seen within {seconds} s; entries: {self.entries}, calls: {self.calls}"
                self._changed.wait(min(left, 0.05))
            return result

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["type"] == kind]

    @property
    def ended(self) -> dict[str, Any] | None:
        return next(iter(self.of_type("ended")), None)

    def output(self, stream: str = "stdout") -> str:
        return "".join(entry["data"] for entry in self.of_type("output") if entry["stream"] == stream)

    def values(self) -> list[Any]:
        return [entry["value"] for entry in self.of_type("metric")]

    def put_code(self, archive: Path) -> str:
        """Serve this archive; returns its hash."""
        self.code = archive.read_bytes()
        return hashlib.sha256(self.code).hexdigest()

    # --- answers ---------------------------------------------------------------------------

    def handle(self, handler: _Handler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        path = handler.path.removeprefix(contract.URL_PREFIX)
        with self._changed:
            self.calls.append(f"{handler.command} {path}")
            script = self._script.popleft() if self._script else {}
        time.sleep(script.get("delay", 0))
        if script.get("cut") == "before":
            handler.cut()
        elif "status" in script:
            handler.answer(script["status"], script.get("document", {"installation": self.installation}),
                           script.get("headers", {}))
        else:
            status, document = self._answer(handler, path, body)
            if "installation" in script and isinstance(document, dict):
                document["installation"] = script["installation"]
            if script.get("cut") == "after":
                handler.cut()
            else:
                handler.answer(status, document)
        with self._changed:
            self._changed.notify_all()

    def _answer(self, handler: _Handler, path: str, body: bytes) -> tuple[int, Any]:
        installation = {"installation": self.installation}
        if handler.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {**installation, "error": "token"}
        if handler.command == "GET" and path.endswith("/job"):
            return (200, self.job) if self.job else (404, installation)
        if handler.command == "GET" and path.endswith("/code"):
            code = self.codes_before.popleft() if self.codes_before else self.code
            return (503, installation) if code is None else (200, code)
        if "/chunks/" in path or "/checkpoints/" in path:
            return self._answer_about_checkpoints(handler.command, path.split("/", 2)[2], body, installation)
        if handler.command == "PUT":
            self.files[path.partition("/files/")[2]] = body
            return 200, installation
        if len(body) > self.longest_body:
            return 413, {**installation, "error": "too_large"}
        encoding = handler.headers.get("Content-Encoding")
        report = json.loads(gzip.decompress(body) if encoding == "gzip" else body)
        with self._changed:
            self.arrivals.append(time.monotonic())
            self.reports.append(report)
            self.encodings.append(encoding)
            return self._take(report, installation)

    def _answer_about_checkpoints(self, method: str, path: str, body: bytes,
                                  installation: dict[str, Any]) -> tuple[int, Any]:
        kind, _, name = path.partition("/")
        known = self.chunks if kind == "chunks" else self.manifests
        with self._changed:
            if method == "POST":
                return self._answer_about_several(name, body, installation)
            if method == "GET":
                return (200, known[name]) if name in known else (404, {**installation, "error": "unknown"})
            if self.gone:
                return 410, {**installation, "error": "gone"}
            if kind == "chunks" and self.refuses_chunks is not None:
                return 503, self.refuses_chunks
            if hashlib.sha256(body).hexdigest() != name:
                return 400, {**installation, "error": "unreadable"}
            if kind == "checkpoints":
                missing = [chunk for file in json.loads(body)["files"] for chunk in file["chunks"]
                           if chunk not in self.chunks]
                if missing:
                    return 409, {**installation, "error": "chunks", "missing": missing}
            known[name] = body
            return 200, installation

    def _answer_about_several(self, name: str, body: bytes, installation: dict[str, Any]) -> tuple[int, Any]:
        if name == "missing":
            return 200, {**installation, "missing": [one for one in json.loads(body)["hashes"]
                                                     if one not in self.chunks]}
        if not self.packs:
            return 404, {**installation, "error": "unknown"}
        if name == "several":
            self.chunks.update({hashlib.sha256(one).hexdigest(): one for one in chunk_pack.unpack(body)})
            return 200, installation
        return 200, chunk_pack.pack(self.chunks[one] for one in json.loads(body)["hashes"])

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """What was told of checkpoints."""
        return self.of_type("checkpoint")

    def content_of(self, entry: dict[str, Any]) -> dict[str, bytes]:
        """The files of a checkpoint that was saved, by path; of a single file the path is ""."""
        return {file["path"]: b"".join(self.chunks[chunk] for chunk in file["chunks"])
                for file in json.loads(self.manifests[entry["id"]])["files"]}

    def _take(self, report: dict[str, Any], installation: dict[str, Any]) -> tuple[int, Any]:
        if self.gone:
            return 410, {**installation, "error": "gone", "message": "not wanted any more"}
        keeper, entries = report["keeper"], report["entries"]
        if not keeper["replica"]:
            if self.journal_id not in (None, keeper["journal_id"]):
                return 409, {**installation, "error": "claimed", "message": "another keeper runs it"}
            accepted = self.accepted
            for entry in entries:
                if entry["n"] > accepted + 1:
                    return 409, {**installation, "error": "gap", "expected": self.accepted + 1}
                accepted = max(accepted, entry["n"])
            for entry in entries:
                if entry["n"] == self.accepted + 1:
                    self.journal_id = keeper["journal_id"]
                    if entry["type"] == "metric" and not isinstance(entry.get("value"), str):
                        self.rejected.append(entry["n"])
                    else:
                        self.entries.append(entry)
        return 200, {**installation, "accepted": self.accepted, "rejected": [], "orders": self.orders,
                     "next_report_within": self.next_report_within,
                     **({} if self.gather_for is None else {"gather_for": self.gather_for})}

    @property
    def accepted(self) -> int:
        return len(self.entries) + len(self.rejected)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], script: ScriptedKeeperServer) -> None:
        self.script = script
        self.sockets: list[socket.socket] = []
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.sockets.append(request)
        self.script.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that was cut is no news here."""

    def cut_all(self) -> None:
        for connection in self.sockets:
            with contextlib.suppress(OSError):  # it has ended by itself
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        self.server.script.handle(self)

    do_GET = do_PUT = do_POST

    def answer(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *arguments: Any) -> None:
        """Tests say themselves what they saw."""
