"""Points for traces: while nobody records they are one shared object, and load nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trainingservice import tracing

ROOT = Path(__file__).resolve().parents[2]


class Kept:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int, int, dict[str, Any], str, bool, str]] = []

    def record(self, name: str, began: int, ended: int, attributes: Mapping[str, tracing.Value], failed: str,
               is_first: bool, caller: str) -> None:
        self.spans.append((name, began, ended, dict(attributes), failed, is_first, caller))


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept = Kept()
    tracing.record_with(kept)
    yield kept
    tracing.record_with(None)


def test_while_nobody_records_all_blocks_are_one_object() -> None:
    assert not tracing.is_on()
    first = tracing.span("submit", trial="abc")
    assert first is tracing.span("start")
    with first as span:
        span.note(platform="local")
    tracing.passed("round", 1.0)
    tracing.between("trial", datetime.now(UTC), datetime.now(UTC))


def test_a_block_is_recorded_with_its_time_and_what_is_noted_later(kept: Kept) -> None:
    before = time.time_ns()
    with tracing.span("launch", is_first=True, caller="from", platform="local") as span:
        span.note(experiment="abc")
    [(name, began, ended, attributes, failed, is_first, caller)] = kept.spans
    assert (name, failed, is_first, caller) == ("launch", "", True, "from")
    assert attributes == {"platform": "local", "experiment": "abc"}
    assert before <= began <= ended <= time.time_ns()


def test_an_error_goes_on_and_is_named_by_its_class_alone(kept: Kept) -> None:
    with pytest.raises(ValueError, match="password"), tracing.span("submit", trial="abc"):
        raise ValueError("the password is hunter2")
    [(_, _, _, attributes, failed, *_)] = kept.spans
    assert (attributes, failed) == ({"trial": "abc"}, "ValueError")


def test_what_took_a_while_ends_now_and_never_ends_before_it_began(kept: Kept) -> None:
    tracing.passed("report", 2.0)
    tracing.passed("report", -1.0)
    tracing.between("trial", datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    (_, began, ended, *_), (_, other, same, *_), (_, first, last, *_) = kept.spans
    assert ended - began == 2_000_000_000
    assert (other, first) == (same, last)


@pytest.mark.parametrize(("value", "is_harmless"), [
    ("abc123def456", True), ("frameworkcontroller", True), ("abc123r2", True), ("EARLY_STOPPED", True), (3, True),
    (0.5, True), (True, True), ("", False), ("a sentence", False), ("ümlaut", False), ("line\nbreak", False),
    ("path/to", False), ("x" * 65, False), ("Bearer=abc", False)])
def test_words_and_numbers_may_be_attributes_and_texts_may_not(value: tracing.Value, is_harmless: bool) -> None:
    assert tracing.is_harmless(value) is is_harmless


def test_platforms_with_points_load_nothing_of_opentelemetry() -> None:
    program = ("import sys, trainingservice.local.service, trainingservice.slurm.service, trainingservice.tracing\n"
               "print([name for name in sys.modules if name.startswith('opentelemetry')])")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
