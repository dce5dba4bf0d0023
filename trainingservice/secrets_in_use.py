"""The secrets that a piece of work uses: a request, a command, the rounds of one cluster, one message that is sent.

What such work says is masked with these and with no others: masked with the secrets of others it would tell which text
is one, and whoever has a word for a password would have it struck out of what is said to everybody. They are held by a
context variable, and go along to the threads that the work starts with ``ServiceThread`` and ``with_secrets_of_now``.
Threads that a library starts by itself know none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: A shorter one is not looked for: it would be found in half of all texts.
SHORTEST = 6

_in_use: ContextVar[set[str] | None] = ContextVar("secrets in use", default=None)


@contextmanager
def own_secrets() -> Iterator[None]:
    """A piece of work of its own: secrets that it learns are its alone, and it knows none of those from before."""
    reset = _in_use.set(set())
    try:
        yield
    finally:
        _in_use.reset(reset)


def learn(secret: str) -> None:
    """The present work uses this secret. Outside of any work this thread does, from now on."""
    if len(secret) >= SHORTEST:
        _secrets_of_now().add(secret)


def in_use() -> tuple[str, ...]:
    """Of the present work, the longest first. From any thread."""
    return tuple(sorted(_in_use.get() or (), key=len, reverse=True))


def with_secrets_of_now(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` for another thread, as a part of the present work; where there is none, as work of its own."""
    secrets = _in_use.get()

    def call(*arguments: P.args, **named: P.kwargs) -> R:
        reset = _in_use.set(set() if secrets is None else secrets)
        try:
            return function(*arguments, **named)
        finally:
            _in_use.reset(reset)

    return call


class ServiceThread(threading.Thread):
    """A thread that is a part of the work which makes it, as all of a platform's own should be."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._secrets = _secrets_of_now()

    def run(self) -> None:
        _in_use.set(self._secrets)
        super().run()


def _secrets_of_now() -> set[str]:
    secrets = _in_use.get()
    if secrets is None:
        secrets = set()
        _in_use.set(secrets)
    return secrets
