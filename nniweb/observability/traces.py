"""Whether this process records traces. OpenTelemetry is loaded where NNIWEB_TRACES is set, and only there."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from trainingservice import tracing

if TYPE_CHECKING:
    from nniweb.observability.trace_export import TraceExport

_export: TraceExport | None = None


def start_if_wanted() -> None:
    """Record spans from now on where the settings want that; harmless when repeated. Raises ImproperlyConfigured where
    the OTEL_* variables cannot be followed.
    """
    global _export
    if not settings.TRACES or _export is not None or \
            os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    from nniweb.observability.trace_export import TraceExport, exporter_of_environment

    exporter = exporter_of_environment()
    if exporter is not None:
        try:
            _export = TraceExport(settings.INSTALLATION_ID, exporter)
        except ValueError as error:  # of OpenTelemetry: limits and sizes that do not go together
            raise ImproperlyConfigured(f"Traces cannot be recorded as the OTEL_* variables say: {error}") from error
        tracing.record_with(_export)
        atexit.register(_export.close)


def end() -> None:
    """Send what is on its way, within two seconds: for processes that end without the functions of ``atexit``."""
    if _export is not None:
        _export.close()
