"""A double of the Kubernetes API on a loopback port: CRUD, lists, watches, rights, and what makes pods run.

It speaks the real protocol, answers as the recordings do (a test compares them), checks objects against schemas, and
runs each pod's command as a real process. Everything a test may want to go wrong can be switched on it.

    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        cluster.kubeconfig            # a file with the address and a token
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import yaml

from tests.fakes.kubernetes.answers import BUILT_IN, ApiAnswers
from tests.fakes.kubernetes.controllers import NAMESPACE, Controller, Controllers, JobController
from tests.fakes.kubernetes.node import Node
from tests.fakes.kubernetes.schemas import SCHEMAS
from tests.fakes.kubernetes.store import Store

TOKEN = "the-token-of-the-tests"


class KubernetesApiDouble(ApiAnswers):
    """One cluster with one node. ``port`` 0 takes a free one, which is kept over ``go_away`` and ``come_back``."""

    def __init__(self, folder: Path, *, controllers: list[Controller] | None = None,
                 kinds: dict[str, tuple[str, str, str]] | None = None, tls: ssl.SSLContext | None = None) -> None:
        """``kinds``: further plurals -> (group, version, kind). ``tls``: speak TLS with this certificate."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._tls = folder, tls
        self.store = Store()
        self.node = Node(self.store, folder / "pods")
        self.controllers = Controllers(self.store, self.node, [JobController(), *(controllers or [])])
        self.kinds = {**BUILT_IN, **(kinds or {})}
        self.schemas = dict(SCHEMAS)
        self.namespaces = {NAMESPACE}
        #: Nodes as a list shows them; the double's own one is added.
        self.tokens = {TOKEN}
        #: (verb, plural) that our account may not use.
        self.forbidden: set[tuple[str, str]] = set()
        #: Fields of a Job's spec that this version does not know: it takes the Job and drops them without a word. To
        #: versions before 1.22 those are completionMode and suspend.
        self.unknown_of_jobs: set[str] = set()
        #: Whether it has just been started: an API server answers 403 to all until its caches of rights are filled.
        self.knows_no_rights = False
        #: (method and path, answer's status) of each request, and how often each verb came.
        self.requests: list[tuple[str, str, int]] = []
        self.verbs: Counter[tuple[str, str]] = Counter()
        #: Answers that come before everything else: {"status", "retry_after", "times", "verb", "message"}.
        self.faults: list[dict[str, Any]] = []
        #: Seconds after which each watch is cut without a word; None: never.
        self.cut_watches_after: float | None = None
        #: Each watch is answered with an event of 410.
        self.watches_are_too_old = False
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self._closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.kubeconfig = folder / "kubeconfig"
        self._ended_tokens: set[str] = set()

    # --- life ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.come_back()
        self.controllers.start()
        self.write_kubeconfig(TOKEN)
        return self

    def __exit__(self, *_: object) -> None:
        self.controllers.close()
        self.go_away()
        self.node.close()

    def come_back(self) -> None:
        """Answer (again)."""
        if self._server is not None:
            return
        self._closing.clear()
        double = self

        class Handler(_Handler):
            cluster = double

        server = _Server(("127.0.0.1", self._port), Handler)
        self._port = server.server_port
        if self._tls is not None:
            server.socket = self._tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self._server = server
        threading.Thread(target=server.serve_forever, args=[0.05], name="kubernetes api", daemon=True).start()

    def go_away(self) -> None:
        """Answer nothing any more; open watches break. Pods go on."""
        server, self._server = self._server, None
        self._closing.set()
        with self.store.changed:
            self.store.changed.notify_all()
        if server is not None:
            server.shutdown()
            server.server_close()
        self.break_connections()

    def break_connections(self) -> None:
        """Every open connection breaks, as with a load balancer that was restarted."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        return f"http{'' if self._tls is None else 's'}://127.0.0.1:{self._port}"

    def write_kubeconfig(self, token: str) -> None:
        """The kubeconfig as a person would have it."""
        self.kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "double", "cluster": {"server": self.url}}],
            "users": [{"name": "tester", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "double", "user": "tester"}}]}))

    def expire_token(self, successor: str) -> None:
        """The token of the kubeconfig is good no more; the file gets another one."""
        self.tokens = {successor}
        self.write_kubeconfig(successor)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections break here on purpose."""


class _Handler(BaseHTTPRequestHandler):
    cluster: KubernetesApiDouble
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        with self.cluster._lock:
            self.cluster._connections.add(self.connection)

    def finish(self) -> None:
        with self.cluster._lock:
            self.cluster._connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests look at ``requests`` instead."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, document, headers = self.cluster.answer(self.command, self.path, body, self.headers)
        with self.cluster._lock:
            self.cluster.requests.append((self.command, self.path, status))
        if isinstance(document, dict | str):
            text = document if isinstance(document, str) else json.dumps(document)
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type",
                             "text/plain; charset=utf-8" if isinstance(document, str) else "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        try:
            for event in document:
                data = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle
