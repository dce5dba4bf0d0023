"""What a process would send to a collector of traces, kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from nniweb.observability.trace_export import TraceExport
from trainingservice import tracing


class RecordedSpans:
    """The spans that were recorded, in the order of their ends."""

    def __init__(self, installation: str = "here") -> None:
        self._exporter = InMemorySpanExporter()
        self.export = TraceExport(installation, self._exporter)

    def all(self) -> list[ReadableSpan]:
        self.export.flush()
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]


@contextmanager
def recorded(installation: str = "here") -> Iterator[RecordedSpans]:
    """This process records spans within the block."""
    spans = RecordedSpans(installation)
    tracing.record_with(spans.export)
    try:
        yield spans
    finally:
        tracing.record_with(None)
        spans.export.close()


def ids_of(span: ReadableSpan) -> tuple[int, int]:
    """Of its trace and its own."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def attributes_of(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})
