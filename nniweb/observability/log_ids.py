"""Of which cluster, experiment and trial a log line speaks: noted where work begins, written by the JSON format."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ids: ContextVar[dict[str, str]] = ContextVar("ids of log lines", default={})  # noqa: B039  # never changed in place


@contextmanager
def log_ids(**ids: str) -> Iterator[None]:
    """Lines logged in this block, by this thread, carry these ids (``cluster``, ``experiment``, ``trial``)."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


class AddIds(logging.Filter):
    """A filter of handlers. What a call gives itself in ``extra`` stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in _ids.get().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
