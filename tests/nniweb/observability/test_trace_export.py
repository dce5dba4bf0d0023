"""Spans reach a collector over HTTP; a dead one loses spans and delays nothing; forks and threads lose none."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from nniweb.observability import trace_export
from nniweb.observability.trace_export import SECONDS_AT_END, TraceExport, exporter_of_environment
from tests.end_to_end.python_program import run_python
from tests.fakes.otlp_receiver import OtlpReceiver
from trainingservice import tracing

ROOT = Path(__file__).resolve().parents[3]
#: A process that records, forks a child that records as well, and ends as servers do.
FORKING = """
import os, sys, django
django.setup()
from nniweb.observability import traces
from trainingservice import tracing
traces.start_if_wanted()
tracing.passed("submit", 0.5, experiment="exp", trial="parent")
child = os.fork()
if child == 0:
    tracing.passed("submit", 0.5, experiment="exp", trial="child")
    traces.end()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with tracing.span("report", trial="parent", status=200):
    pass
sys.exit(0)  # what atexit has is called
"""


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hole:
        yield f"http://127.0.0.1:{hole.getsockname()[1]}"


@pytest.fixture(autouse=True, scope="module")
def no_exporter_lives_on() -> Iterator[None]:
    """What one says when it gives up would be heard by the tests that follow."""
    yield
    for thread in threading.enumerate():
        if thread.name == "traces-end":
            thread.join(90)


@pytest.fixture(autouse=True)
def nothing_is_recorded_afterwards() -> Iterator[None]:
    yield
    tracing.record_with(None)


def run(program: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_", "OTEL_"))}
    return run_python(program, cwd=ROOT, timeout=120, env={
        **kept, "NNIWEB_DATA": str(folder), "NNIWEB_TRACES": "1", "DJANGO_SETTINGS_MODULE": "nniweb.settings",
        **variables})


@pytest.mark.slow
def test_a_process_its_forked_child_and_its_end_send_all_spans(receiver: OtlpReceiver, tmp_path: Path) -> None:
    done = run(FORKING, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
               OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20collector-token", OTEL_SERVICE_NAME="our-nniweb",
               OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test")
    assert done.returncode == 0, done.stderr
    found = sorted((span.name, span.attributes["nniweb.trial.id"]) for span in receiver.spans)
    assert found == [("report", "parent"), ("submit", "child"), ("submit", "parent")]
    of_parent = [span for span in receiver.spans if span.attributes["nniweb.trial.id"] == "parent"]
    assert len({(span.trace_id, span.parent_id) for span in of_parent}) == 1
    for span in receiver.spans:
        assert span.resource["service.name"] == "our-nniweb"
        assert span.resource["deployment.environment"] == "test"
        assert "service.version" in span.resource
    assert {headers["authorization"] for headers in receiver.headers} == {"Bearer collector-token"}


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "expected"), [
    ({"OTEL_SDK_DISABLED": "true"}, False), ({"OTEL_TRACES_EXPORTER": "none"}, False), ({"NNIWEB_TRACES": "0"}, False),
    ({"OTEL_TRACES_SAMPLER": "always_off"}, True)])
def test_what_switches_traces_off_sends_nothing(variables: dict[str, str], expected: bool, receiver: OtlpReceiver,
                                                tmp_path: Path) -> None:
    program = FORKING.replace("sys.exit(0)", "print('opentelemetry.sdk' in sys.modules)")
    done = run(program, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, **variables)
    assert done.returncode == 0, done.stderr
    assert receiver.spans == []
    if variables.get("OTEL_SDK_DISABLED") or variables.get("NNIWEB_TRACES") or expected:
        assert done.stdout.strip() == str(expected)


@pytest.mark.parametrize(("variables", "sentence"), [
    ({"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"}, "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or grpc, not "
                                               '"smoke"'),
    ({"OTEL_TRACES_EXPORTER": "zipkin"}, 'OTEL_TRACES_EXPORTER asks for an exporter of traces, "zipkin", that no '
                                         "installed package has."),
    ({"OTEL_BSP_SCHEDULE_DELAY": "-5"}, "Traces cannot be recorded as the OTEL_* variables say: schedule_delay_millis"),
    ({"OTEL_BSP_MAX_QUEUE_SIZE": "10"}, "Traces cannot be recorded as the OTEL_* variables say: max_export_batch_size"),
    ({"NNIWEB_TRACES": "perhaps"}, "NNIWEB_TRACES must be 1 or 0")])
def test_what_cannot_be_followed_is_a_sentence(variables: dict[str, str], sentence: str, tmp_path: Path) -> None:
    done = run("import django\ndjango.setup()\nfrom nniweb.observability import traces\ntraces.start_if_wanted()",
               tmp_path, **variables)
    assert done.returncode == 1
    assert f"ImproperlyConfigured: {sentence}" in done.stderr


def test_without_the_package_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    absent = "import sys\nsys.modules['opentelemetry'] = None\nimport nniweb.settings"
    done = run(absent, tmp_path)
    assert ("NNIWEB_TRACES is set, which needs additional packages. Install them: python -m pip install 'nniweb[otel]' "
            "(in a checkout: -r requirements/otel.txt)") in done.stderr
    assert run(absent, tmp_path, NNIWEB_TRACES="0").returncode == 0


def test_many_threads_record_at_the_same_time() -> None:
    kept = InMemorySpanExporter()
    export = TraceExport("here", kept)
    tracing.record_with(export)
    begun = threading.Barrier(8)

    def record(thread: int) -> None:
        begun.wait()
        for number in range(100):
            tracing.passed("trial", 0.001, is_first=True, experiment="exp", trial=f"t{thread}x{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(record, range(8)))
    export.close()
    found = kept.get_finished_spans()
    assert len(found) == 800
    # each with the ids that its own trial gives it, whatever other threads did meanwhile
    assert len({(span.context.trace_id, span.context.span_id) for span in found}) == 800
    again = InMemorySpanExporter()
    other = TraceExport("here", again)
    other.record("trial", 1, 2, {"experiment": "exp", "trial": "t3x7"}, "", True, "")
    other.close()
    [same] = again.get_finished_spans()
    assert (same.context.trace_id, same.context.span_id) in {
        (span.context.trace_id, span.context.span_id) for span in found
        if span.attributes["nniweb.trial.id"] == "t3x7"}


@pytest.mark.parametrize("answers", [True, False])
def test_a_dead_collector_delays_neither_the_work_nor_the_end(answers: bool, black_hole: str,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses with 503, which is asked again, and one that never answers."""
    with OtlpReceiver(status=503) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url if answers else black_hole)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        exporter = exporter_of_environment()
        assert exporter is not None
        export = TraceExport("here", exporter)
        tracing.record_with(export)
        begun, slowest = time.monotonic(), 0.0
        for number in range(5000):  # more than the queue holds
            one = time.thread_time()
            tracing.passed("report", 0.001, experiment="exp", trial=f"t{number}", status=200)
            slowest = max(slowest, time.thread_time() - one)
        assert slowest < 1.0  # the exporter's own limit is 10 s
        assert time.monotonic() - begun < 60
        begun = time.monotonic()
        export.close()
        assert time.monotonic() - begun < SECONDS_AT_END + 5
        exporter.shutdown()  # it tries no more


def test_a_recorder_that_fails_leaves_the_work_alone(caplog: pytest.LogCaptureFixture) -> None:
    export = TraceExport("here", InMemorySpanExporter())
    export._tracer = None  # type: ignore[assignment]
    tracing.record_with(export)
    for _ in range(3):
        with tracing.span("submit", trial="abc"):
            pass
    export.close()
    # exporters of earlier tests may still say that nobody took their spans
    assert [record.levelname for record in caplog.records if record.name == trace_export.__name__] == ["ERROR"]


def test_texts_that_a_platform_gives_as_its_name_are_left_out() -> None:
    kept = InMemorySpanExporter()
    export = TraceExport("here", kept)
    export.record("submit", 1, 2, {"platform": "of Ada and Bob", "trial": "abc", "attempts": 2}, "Error: no", False, "")
    export.close()
    [span] = kept.get_finished_spans()
    assert dict(span.attributes or {}) == {"nniweb.trial.id": "abc", "nniweb.attempts": 2}
    assert not span.status.is_ok
