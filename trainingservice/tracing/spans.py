"""Points of the work that traces can show: what was done, for which trial, and how long it took.

Nothing is recorded until ``record_with`` names a recorder, as the server does where NNIWEB_TRACES is set. Until then a
point costs a call that returns at once. Standard library only, because platforms have points, too.

Points give ids, counts, and names that programs have: never a text that a person wrote, and never the text of an error,
which may quote a secret. A recorder must leave out what ``is_harmless`` refuses.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Protocol

Value = str | int | float | bool

#: Ids, names of platforms and classes, codes. Nothing with spaces, which sentences have.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


class Recorder(Protocol):
    """Keeps spans. Called from any thread; must neither raise nor wait."""

    def record(self, name: str, began: int, ended: int, attributes: Mapping[str, Value], failed: str,
               is_first: bool, caller: str) -> None:
        """One span. ``began``, ``ended``: nanoseconds since 1970. ``failed``: the class of the error, "" where there
        was none. ``is_first``: the other spans with the same ``trial`` (or ``experiment``, where it has no trial)
        belong below it. ``caller``: a W3C ``traceparent`` as somebody sent it, or "".
        """


_recorder: Recorder | None = None


def record_with(recorder: Recorder | None) -> None:
    """From now on spans of this process go there; None: they go nowhere."""
    global _recorder
    _recorder = recorder


def is_on() -> bool:
    """Whether anything is recorded: for points whose attributes would cost something."""
    return _recorder is not None


def is_harmless(value: Value) -> bool:
    """Whether the value is a number or a word, and so no text of a person."""
    return not isinstance(value, str) or _WORD.fullmatch(value) is not None


class Span:
    """A block that is recorded when it ends. An error that leaves the block is named by its class, and goes on."""

    __slots__ = ("_attributes", "_began", "_caller", "_is_first", "_name", "_recorder")

    def __init__(self, recorder: Recorder, name: str, attributes: dict[str, Value], is_first: bool, caller: str
                 ) -> None:
        self._recorder, self._name, self._attributes = recorder, name, attributes
        self._is_first, self._caller = is_first, caller

    def note(self, **attributes: Value) -> None:
        """Attributes that are known later."""
        self._attributes.update(attributes)

    def __enter__(self) -> Span:
        self._began = time.time_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
                 ) -> None:
        self._recorder.record(self._name, self._began, time.time_ns(), self._attributes,
                              kind.__name__ if kind is not None else "", self._is_first, self._caller)


class _NoSpan:
    """What is recorded nowhere. One object for all blocks."""

    __slots__ = ()

    def note(self, **attributes: Value) -> None:
        """Nothing."""

    def __enter__(self) -> _NoSpan:
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        """Nothing."""


_NO_SPAN = _NoSpan()


def span(name: str, *, is_first: bool = False, caller: str = "", **attributes: Value) -> Span | _NoSpan:
    """A block to record: ``with span("submit", experiment=..., trial=...):``. Arguments as in ``Recorder.record``."""
    recorder = _recorder
    return _NO_SPAN if recorder is None else Span(recorder, name, attributes, is_first, caller)


def passed(name: str, seconds: float, *, failed: str = "", is_first: bool = False, **attributes: Value) -> None:
    """Record what ends now and took so many seconds."""
    recorder = _recorder
    if recorder is not None:
        now = time.time_ns()
        recorder.record(name, now - max(0, int(seconds * 1e9)), now, attributes, failed, is_first, "")


def between(name: str, began: datetime, ended: datetime, *, is_first: bool = False, **attributes: Value) -> None:
    """Record what went on between two times, which know their zone."""
    recorder = _recorder
    if recorder is not None:
        start, end = (int(at.timestamp() * 1e6) * 1000 for at in (began, ended))
        recorder.record(name, start, max(start, end), attributes, "", is_first, "")
