"""Of which cluster, experiment and trial a log line speaks: noted where work begins, written by the JSON format."""

import logging
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_ids: ContextVar[dict[str, str]] = ContextVar("ids of log lines", default={})  # noqa: B039  # never changed in place


@contextmanager
def log_ids(**ids: str) -> Iterator[None]:
    """Lines logged in this block, by this thread, carry these ids (``cluster``, ``experiment``, ``trial``)."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def with_ids_of_now(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` for another time or thread: what it logs carries the ids that are noted now."""
    ids = _ids.get()

    def call(*arguments: P.args, **named: P.kwargs) -> R:
        with log_ids(**ids):
            return function(*arguments, **named)

    return call


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class ExperimentLogger(_Adapter):
    """A logger for work on one experiment: lines begin with its id, which the plain form would not show otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        experiment = _ids.get().get("experiment")
        return (f"experiment {experiment}: {msg}" if experiment else msg), kwargs


class AddIds(logging.Filter):
    """A filter of handlers. What a call gives itself in ``extra`` stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in _ids.get().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
