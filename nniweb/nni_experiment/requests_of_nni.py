"""Requests of NNI's clients on loopback: which are taken, and what is no request of theirs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

#: Seconds for a request to come, and its most bytes; a config with a search space is much smaller.
PATIENCE, MOST_BYTES = 30.0, 16 * 1024 * 1024
_OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_INTERFACE = "api/v1/nni"


@dataclass(frozen=True)
class Answer:
    """``status`` of HTTP, and the body. ``is_last``: nothing is to be answered after it."""

    status: int
    body: bytes
    content_type: str = "application/json"
    is_last: bool = False


def sentence(status: int, text: str) -> Answer:
    """An error as NNI has it."""
    return Answer(status, json.dumps({"error": text}).encode())


class Handler(BaseHTTPRequestHandler):
    """One connection. Subclasses say who answers; there is no token, so pages of a browser are not answered."""

    timeout = PATIENCE
    answer_of: Callable[[str, str, Mapping[str, str], bytes], Answer]
    #: The address of the page that stands for this port, "" where there is none.
    page_of: Callable[[], str]
    #: Called when a last answer has been sent.
    end: Callable[[], None]
    prefix = ""

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        inner = f"{self.prefix}/{_INTERFACE}".strip("/")
        path = parts.path.strip("/")
        if self.headers.get("Origin") or (self.headers.get("Host") or "").rpartition(":")[0] not in _OWN_NAMES:
            self._send(sentence(403, "Pages of other sites may not use this port."))
        elif not f"{path}/".startswith(f"{inner}/"):
            self._redirect()
        elif (body := self._body()) is None:
            self._send(sentence(413, f"The body must be given with its length, at most {MOST_BYTES} bytes."))
        else:
            self._send(self.answer_of(self.command, path.removeprefix(inner), dict(parse_qsl(parts.query)), body))

    do_GET = do_POST = do_PUT = do_DELETE = _handle

    def _body(self) -> bytes | None:
        written = self.headers.get("Content-Length", "0")
        if not written.isascii() or not written.isdecimal() or len(written) > 9 or int(written) > MOST_BYTES:
            return None
        return self.rfile.read(int(written))

    def _redirect(self) -> None:
        page = self.page_of()
        if not page or self.command != "GET":
            self._send(sentence(404, "Only NNI's REST interface is here."))
            return
        self.send_response(302)
        self.send_header("Location", page)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(answer.body)
        if answer.is_last:
            self.end()

    def log_message(self, format: str, *args: Any) -> None:
        """NNI's process prints no requests."""
