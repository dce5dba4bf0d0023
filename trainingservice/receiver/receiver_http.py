"""The HTTP side of a ``KeeperReceiver``: requests in, answers out, bodies never larger than allowed."""

from __future__ import annotations

import io
import json
import logging
import shutil
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from trainingservice.lasting_thread import LastingThread
from trainingservice.receiver.report_reading import RefusedReport, refuse_by_length
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Seconds a connection may stay silent before it is closed; longer than the longest pause between reports.
IDLE_TIMEOUT = 90.0
#: So much of a refused body is read and dropped, with so many seconds of silence, before the connection is closed.
LINGER_BYTES, LINGER_TIMEOUT = 4 * contract.MAX_REPORT_BYTES, 2.0


@dataclass(frozen=True)
class Answer:
    """``body`` is sent as JSON, a path as the content of that file, bytes as they are."""

    status: int
    body: Mapping[str, Any] | Path | bytes
    headers: dict[str, str] = field(default_factory=dict)


class Request:
    """One request; its body is read when asked for, and only up to a limit."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.method = handler.command
        self.headers = handler.headers
        self._stream = handler.rfile
        self.body_was_read = "Content-Length" not in handler.headers and "Transfer-Encoding" not in handler.headers
        path = urlsplit(handler.path).path
        #: The path behind the protocol's prefix, in decoded parts; empty where it is another path.
        self.parts: list[str] = []
        if path.startswith(contract.URL_PREFIX):
            self.parts = [unquote(part, errors="surrogateescape")
                          for part in path[len(contract.URL_PREFIX):].strip("/").split("/")]

    def read(self, limit: int) -> bytes:
        """The body. Raises RefusedReport: 413 by its length, before reading; 400 where it has none or is cut off."""
        body = io.BytesIO()
        self.copy_to(body, limit)
        return body.getvalue()

    def copy_to(self, target: IO[bytes], limit: int) -> None:
        """Write the body to ``target`` piece by piece. Raises like ``read``."""
        left = self._length(limit)
        while left:
            try:
                piece = self._stream.read(min(left, 64 * 1024))
            except OSError:  # the connection broke or fell silent
                piece = b""
            if not piece:
                raise RefusedReport(400, contract.ERROR_UNREADABLE, "the body is cut off")
            target.write(piece)
            left -= len(piece)
        self.body_was_read = True

    def _length(self, limit: int) -> int:
        length = self.headers.get("Content-Length")
        if length is None:
            raise RefusedReport(400, contract.ERROR_UNREADABLE, "the request has no Content-Length")
        refuse_by_length(length, limit)
        return int(length.lstrip("0") or "0")


class ReceiverServer(ThreadingHTTPServer):
    """Answers with ``answer(request)``, in a thread per connection. ``stop`` leaves no thread and no socket behind."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], answer: Callable[[Request], Answer]) -> None:
        super().__init__(address, _Handler)
        self.answer = answer
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = LastingThread("keeper-receiver", lambda: self.serve_forever(poll_interval=0.05),
                                     stopping=self._stopping)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
        with self._changed:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RD)  # a request being answered is still answered
                except OSError:
                    continue  # the keeper was faster
            if not self._changed.wait_for(lambda: not self._connections, timeout=5.0):
                logger.warning("%d connections of keepers did not end within 5 s", len(self._connections))

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._connections.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a connection of %s broke", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "keeper-receiver"
    timeout = IDLE_TIMEOUT
    disable_nagle_algorithm = True
    wbufsize = -1
    server: ReceiverServer

    def _serve(self) -> None:
        request = Request(self)
        try:
            answer = self.server.answer(request)
        except Exception:
            logger.exception("a request of a keeper could not be answered")
            answer = Answer(500, {"error": "failed", "message": "the receiver failed; its log says why"})
        if not request.body_was_read:
            self.close_connection = True
        try:
            if isinstance(answer.body, Path):
                with answer.body.open("rb") as stream:
                    stream.seek(0, 2)
                    self._begin(answer, stream.tell())
                    stream.seek(0)
                    shutil.copyfileobj(stream, self.wfile)
            else:
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self._begin(answer, len(body))
                self.wfile.write(body)
            self.wfile.flush()
            if not request.body_was_read:
                self._let_it_finish()
        except OSError:  # the keeper has gone; it will ask again
            self.close_connection = True

    def _let_it_finish(self) -> None:
        """Read and drop the refused body: closing before would make the client lose the answer while it still sends."""
        self.connection.settimeout(LINGER_TIMEOUT)
        left = LINGER_BYTES
        while left > 0 and (piece := self.rfile.read1(64 * 1024)):
            left -= len(piece)

    do_GET = do_POST = do_PUT = _serve  # noqa: N815

    def _begin(self, answer: Answer, length: int) -> None:
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("%s %s", self.address_string(), format % args)
