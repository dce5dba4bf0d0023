"""A proxy for keepers' reports that treats them as a bad network would: twice, late, in another order, or slowly."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

import requests

#: Headers of one connection, which are not passed on.
OF_THE_CONNECTION = {"host", "connection", "content-length", "transfer-encoding", "keep-alive"}
#: Seconds for one answer of the server behind it.
PATIENCE = 60.0


@dataclass
class UnkindHttpProxy:
    """Passes requests on 127.0.0.1:``port`` to ``target()`` (scheme and host, no slash at the end). Close it."""

    target: Callable[[], str]
    random: Random = field(default_factory=lambda: Random(0))
    #: Chance that a POST is sent a second time at once, and that an older one of the same address follows it.
    doubles: float = 0.0
    repeats_older: float = 0.0
    #: Seconds before each request is passed on.
    delay: float = 0.0
    #: Requests that came, and those sent once more.
    passed: int = 0
    repeated: int = 0

    def __post_init__(self) -> None:
        self._older: dict[str, list[tuple[dict[str, str], bytes]]] = {}
        self._guard = threading.Lock()
        self._over = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self) -> None:
                proxy._pass(self)

            do_POST = do_PUT = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> UnkindHttpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside ----------------------------------------------------------------------------

    def _pass(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in OF_THE_CONNECTION}
        if self.delay:
            self._over.wait(self.delay)
        answer = self._ask(handler.command, handler.path, headers, body)
        with self._guard:
            self.passed += 1
        if answer is None:
            return  # the connection ends without an answer, as when the server is away
        if handler.command == "POST":
            answer = self._once_more(handler.path, headers, body) or answer
        with contextlib.suppress(OSError):  # the keeper has given up waiting
            handler.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in OF_THE_CONNECTION | {"content-encoding", "date", "server"}:
                    handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(answer.content)))
            handler.end_headers()
            handler.wfile.write(answer.content)

    def _once_more(self, path: str, headers: dict[str, str], body: bytes) -> requests.Response | None:
        """The answer that the keeper gets instead: to the same report, sent again."""
        with self._guard:
            older = self._older.setdefault(path, [])
            again = self.random.random() < self.doubles
            late = self.random.choice(older) if older and self.random.random() < self.repeats_older else None
            older.append((headers, body))
            del older[:-20]
            self.repeated += again + (late is not None)
        if late is not None:
            self._ask("POST", path, *late)
        return self._ask("POST", path, headers, body) if again else None

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> requests.Response | None:
        try:
            return requests.request(method, self.target() + path, headers=headers, data=body, timeout=PATIENCE,
                                    allow_redirects=False, proxies={"http": "", "no_proxy": "*"})
        except requests.RequestException:
            return None
