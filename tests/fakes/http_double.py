"""What doubles of REST services share: a real HTTP(S) server on loopback that can be away, and scripted answers."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    path: str  #: decoded, without the query
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes | str | Any = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


@dataclass
class _Script:
    answer: Answer
    left: int
    method: str
    part: str
    after: bool


class HttpDouble:
    """Override ``answer``. ``start`` after ``close`` comes back at the same port."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self.requests: list[Request] = []
        self._tls = tls
        self._server: ThreadingHTTPServer | None = None
        self._scripts: list[_Script] = []
        self._guard = threading.Lock()

    @property
    def address(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> Answer:
        raise NotImplementedError

    def start(self) -> HttpDouble:
        double = self

        class Server(_Server):
            tls = self._tls

        class Handler(_Handler):
            def respond(self, request: Request) -> Answer:
                return double._answer(request)

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def close(self) -> None:
        """Nobody answers any more; jobs go on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.end_connections()
            self._server = None

    def script(self, answer: Answer, times: int = 1, *, method: str = "", part: str = "", after: bool = False) -> None:
        """Give this answer to the next requests of this method with this part in their path.

        ``after``: the request does its work, and only its answer is lost behind this one.
        """
        with self._guard:
            self._scripts.append(_Script(answer, times, method, part, after))

    def unscript(self, method: str = "") -> None:
        """Give no such answers any more; with a method: those to requests of this method."""
        with self._guard:
            self._scripts = [script for script in self._scripts if method and script.method != method]

    def count(self, method: str, part: str) -> int:
        """How many such requests came so far."""
        return sum(request.method == method and part in request.path for request in list(self.requests))

    def _answer(self, request: Request) -> Answer:
        with self._guard:
            self.requests.append(request)
            found = next((script for script in self._scripts if script.left > 0 and script.part in request.path
                          and script.method in ("", request.method)), None)
            if found is not None:
                found.left -= 1
        if found is not None and not found.after:
            return found.answer
        answer = self.answer(request)
        return answer if found is None else found.answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    tls: ssl.SSLContext | None = None

    def __init__(self, *arguments: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*arguments)

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls is not None:  # in the connection's own thread: a slow handshake holds nobody up
            try:
                request = self.tls.wrap_socket(request, server_side=True)
            except OSError:
                return
        self._open.add(request)
        try:
            super().finish_request(request, client_address)
        finally:
            self._open.discard(request)
            if self.tls is not None:
                request.close()

    def end_connections(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is none."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    respond: Callable[[Request], Answer]

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = self._chunks()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, unquote(parts.path), dict(parse_qsl(parts.query, keep_blank_values=True)),
                          self.headers, body)
        answer = self.respond(request)
        content = answer.content()
        self.send_response_only(answer.status)
        for name, value in {"Date": self.date_time_string(), "Content-Type": answer.content_type,
                            "Content-Length": str(len(content)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Tests look at ``requests``."""
