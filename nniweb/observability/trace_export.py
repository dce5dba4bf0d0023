"""Spans of ``trainingservice.tracing`` go to a collector, with OpenTelemetry's SDK: loaded where NNIWEB_TRACES is set.

Each trial has a trace of its own, and so has each experiment. Their ids are computed from the ids of the installation,
the experiment and the trial: web processes and workers put their spans into the same trace without telling each other.
Spans of neither are a trace each.

*Threads, forks*: spans may be recorded in any thread, on event loops too: they are put into a bounded queue, which
a thread of the SDK empties; a process that was forked has a thread of its own. No global of OpenTelemetry is set, so
what libraries record is left to who runs the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points

from django.core.exceptions import ImproperlyConfigured
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from nniweb import __version__
from trainingservice import tracing
from trainingservice.words.shown_value import shown

logger = logging.getLogger(__name__)

#: Longest time, in seconds, that the end of a process waits for spans on their way: a collector may be away.
SECONDS_AT_END = 2.0
#: Of attributes, whose names in traces begin with it.
PREFIX = "nniweb."
_NAMES = {"experiment": "nniweb.experiment.id", "trial": "nniweb.trial.id", "status": "http.response.status_code"}
_EXPORTERS = "opentelemetry_traces_exporter"
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class TraceExport:
    """A recorder for ``tracing.record_with``."""

    def __init__(self, installation: str, exporter: SpanExporter) -> None:
        self._installation = installation
        self._ids = _GivenIds()
        # who runs the server may name it otherwise: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
        named = Resource({"service.name": "nniweb", "service.version": __version__}).merge(
            OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=Resource.create(named.attributes), id_generator=self._ids,
                                        shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("nniweb", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._has_failed = False
        self._begin_closer()
        os.register_at_fork(after_in_child=self._after_fork)

    def record(self, name: str, began: int, ended: int, attributes: Mapping[str, tracing.Value], failed: str,
               is_first: bool, caller: str) -> None:
        try:
            self._record(name, began, ended, attributes, failed, is_first, caller)
        except Exception:  # the work that is traced goes on
            if not self._has_failed:
                self._has_failed = True
                logger.exception("a span %r could not be recorded; later ones are left out without a word", name)

    def _record(self, name: str, began: int, ended: int, attributes: Mapping[str, tracing.Value], failed: str,
                is_first: bool, caller: str) -> None:
        experiment, trial = str(attributes.get("experiment", "")), str(attributes.get("trial", ""))
        own = self._context_of("trial", trial) if trial else \
            self._context_of("experiment", experiment) if experiment else None
        links = [self._context_of("experiment", experiment)] if trial and is_first and experiment else []
        asked = self._caller(caller)
        if asked is not None:
            # in the trace of who asked, too; each leads to the other
            self._emit(name, began, ended, attributes, failed, parent=asked, links=[own] if own is not None else [])
            links.append(asked)
        if own is None:
            if asked is None:
                self._emit(name, began, ended, attributes, failed, links=links)
        elif is_first:
            with self._ids.given(own.trace_id, own.span_id):
                self._emit(name, began, ended, attributes, failed, links=links)
        else:
            self._emit(name, began, ended, attributes, failed, parent=own, links=links)

    def _emit(self, name: str, began: int, ended: int, attributes: Mapping[str, tracing.Value], failed: str, *,
              parent: SpanContext | None = None, links: list[SpanContext]) -> None:
        within = Context() if parent is None else set_span_in_context(NonRecordingSpan(parent), Context())
        span = self._tracer.start_span(
            name, within, start_time=began, links=[Link(link) for link in links],
            attributes={_NAMES.get(key, PREFIX + key): value for key, value in attributes.items()
                        if tracing.is_harmless(value)})
        if failed:
            if tracing.is_harmless(failed):
                span.set_attribute("error.type", failed)
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)

    def _context_of(self, kind: str, public_id: str) -> SpanContext:
        """Of the first span of a trial or an experiment, wherever that is recorded. Every process decides in the same
        way whether the trace is sampled.
        """
        digest = hashlib.sha256("\0".join((self._installation, kind, public_id)).encode()).digest()
        trace_id = int.from_bytes(digest[:16]) or 1
        is_sampled = self._provider.sampler.should_sample(None, trace_id, kind).decision is Decision.RECORD_AND_SAMPLE
        return SpanContext(trace_id, int.from_bytes(digest[16:24]) or 1, is_remote=True,
                           trace_flags=TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT))

    def _caller(self, traceparent: str) -> SpanContext | None:
        if not traceparent:
            return None
        found = get_current_span(self._propagator.extract({"traceparent": traceparent}, Context())).get_span_context()
        return found if found.is_valid else None

    def flush(self) -> None:
        """Send all that was recorded; waits for the collector. For tests."""
        self._provider.force_flush()

    def close(self) -> None:
        """Send what is on its way, in ``SECONDS_AT_END`` at most; harmless when repeated."""
        self._closing.set()
        self._closed.wait(SECONDS_AT_END)

    def _begin_closer(self) -> None:
        """A thread that waits for the end: shutting down may take the SDK half a minute, and while Python ends, no
        thread can be started for it.
        """
        self._closing, self._closed = threading.Event(), threading.Event()
        with contextlib.suppress(RuntimeError, MemoryError):  # no thread to spare: what is on its way then is lost
            threading.Thread(target=self._close_when_asked, args=(self._closing, self._closed), name="traces-end",
                             daemon=True).start()

    def _after_fork(self) -> None:
        if not self._closing.is_set():
            self._begin_closer()

    def _close_when_asked(self, closing: threading.Event, closed: threading.Event) -> None:
        closing.wait()
        try:
            self._provider.shutdown()
        finally:
            closed.set()


class _GivenIds(RandomIdGenerator):
    """Random ids, except for a span for which the thread has given them."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @contextmanager
    def given(self, trace_id: int, span_id: int) -> Iterator[None]:
        self._of_thread.ids = (trace_id, span_id)
        try:
            yield
        finally:
            self._of_thread.ids = None

    def generate_trace_id(self) -> int:
        ids = getattr(self._of_thread, "ids", None)
        return super().generate_trace_id() if ids is None else int(ids[0])

    def generate_span_id(self) -> int:
        ids = getattr(self._of_thread, "ids", None)
        return super().generate_span_id() if ids is None else int(ids[1])


def exporter_of_environment() -> SpanExporter | None:
    """The one that OTEL_TRACES_EXPORTER names; OTLP over HTTP where nothing is said. None: "none"."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if name == "none":
        return None
    variable = "OTEL_TRACES_EXPORTER"
    if name == "otlp":
        variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
        protocol = (os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "").strip()
                    or os.environ.get(variable, "").strip() or "http/protobuf")
        name = _PROTOCOLS.get(protocol, "")
        if not name:
            raise ImproperlyConfigured(f"{variable} must be {' or '.join(_PROTOCOLS)}, not {shown(protocol)}.")
    found = next(iter(entry_points(group=_EXPORTERS, name=name)), None)
    if found is None:
        raise ImproperlyConfigured(f"{variable} asks for an exporter of traces, {shown(name)}, that no installed "
                                   "package has. Install its package, or leave the variable out: spans then go to "
                                   "OTEL_EXPORTER_OTLP_ENDPOINT over HTTP.")
    try:
        exporter: SpanExporter = found.load()()
    except (ValueError, OSError) as error:
        raise ImproperlyConfigured(f"The exporter of traces could not be made from the OTEL_* variables: {error}"
                                   ) from None
    return exporter
