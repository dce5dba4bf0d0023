"""The port of ``manage.py worker``: probes and figures of a process that serves no pages. Off unless it is set."""

import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Self
from wsgiref.simple_server import WSGIRequestHandler, make_server

import orjson
from django.db import connection
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.exposition import ThreadingWSGIServer

from nniweb.observability.figures import all_figures, is_metrics_token
from nniweb.observability.readiness import readiness
from trainingservice.lasting_thread import LastingThread

if TYPE_CHECKING:  # not there when running
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
WHO_MAY_READ = (b"The figures are for whoever has NNIWEB_METRICS_TOKEN (Authorization: Bearer ...). "
                b"Set it to read them.\n")


class WorkerPort:
    """Answers from the moment it is made, on threads of its own, until ``close``.

    ``is_whole`` says whether the worker's own threads live; it is called on the threads that answer.
    Raises OSError where the port cannot be had, OverflowError where there is none of this number.
    """

    def __init__(self, host: str, port: int, is_whole: Callable[[], bool]) -> None:
        self._is_whole = is_whole
        self._server = make_server(host, port, self._answer, _ServerOfIPv6 if ":" in host else _Server, _QuietHandler)
        self._stopping = threading.Event()
        self._thread = LastingThread("worker-port", self._server.serve_forever, stopping=self._stopping)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        host, port = self._server.server_address[:2]
        name = str(host)
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def close(self) -> None:
        """Answer nobody any more."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None,
                 _traceback: TracebackType | None) -> None:
        self.close()

    # --- answering: on a thread for each request ---------------------------------------------

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        try:
            status, kind, body = self._document(environ)
        finally:
            connection.close()  # this thread's, where it was opened
        start_response(f"{status.value} {status.phrase}", [
            ("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    def _document(self, environ: "WSGIEnvironment") -> tuple[HTTPStatus, str, bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"Only GET is answered here.\n"
        match environ["PATH_INFO"]:
            case "/healthz":
                alive = self._is_whole()
                return _good(alive), JSON, orjson.dumps({"alive": alive})
            case "/readyz":
                ready, document = readiness()
                return _good(ready), JSON, orjson.dumps(document)
            case "/metrics":
                if not is_metrics_token(environ.get("HTTP_AUTHORIZATION", "")):
                    return HTTPStatus.UNAUTHORIZED, TEXT, WHO_MAY_READ
                return HTTPStatus.OK, CONTENT_TYPE_LATEST, all_figures()
        return HTTPStatus.NOT_FOUND, TEXT, b"This is a worker: /healthz, /readyz and /metrics are all there is.\n"


class _Server(ThreadingWSGIServer):
    address_family = socket.AF_INET


class _ServerOfIPv6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    #: Seconds for a request to arrive: who only connects holds a thread no longer.
    timeout = 30

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds; the log is for what happens."""


def _good(well: bool) -> HTTPStatus:
    return HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
