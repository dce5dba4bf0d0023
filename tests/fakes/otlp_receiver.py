"""A collector of traces on loopback: takes OTLP over HTTP, as one of OpenTelemetry does, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    #: Of the process that sent it.
    resource: dict[str, Any]
    #: (trace, span) of each link.
    links: tuple[tuple[str, str], ...]


class OtlpReceiver:
    """Listens until ``close``. ``status``: what it answers. Thread-safe."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self._guard = threading.Lock()
        self._spans: list[ReceivedSpan] = []
        #: Headers of each request.
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._take(self.path, dict(self.headers), body)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def spans(self) -> list[ReceivedSpan]:
        with self._guard:
            return list(self._spans)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        assert path == "/v1/traces", path
        message = ExportTraceServiceRequest.FromString(body)
        with self._guard:
            self.headers.append(headers)
            for of_resource in message.resource_spans:
                resource = _plain(of_resource.resource.attributes)
                for scope in of_resource.scope_spans:
                    self._spans += [ReceivedSpan(
                        span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
                        _plain(span.attributes), resource,
                        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links))
                        for span in scope.spans]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
                 ) -> None:
        self.close()


def _plain(attributes: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}
