"""Points of the work that traces can show; without a recorder they do nothing. ``spans`` has all of it."""

from trainingservice.tracing.spans import Recorder, Span, Value, between, is_harmless, is_on, passed, record_with, span

__all__ = ["Recorder", "Span", "Value", "between", "is_harmless", "is_on", "passed", "record_with", "span"]
