"""Says "experiment X changed" to whoever listens. Carries no data and may be lost.

Who hears it reads the rows. A listener that was busy hears each experiment once, however often it
was rung. Where NNIWEB_REDIS_URL is set the bell is heard in the other processes of the installation
too (``bell_between_processes``). What is rung elsewhere without it, or is lost, is found by the
listeners' own looks at the database (every second in the worker, every two seconds for open pages).

Most changes concern only those who look at an experiment: a metric that no assessor waits for, output, a start. They
are rung as needing no round, and a worker does not hear them.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

from nniweb.experiments.pubsub.bell_between_processes import BellBetweenProcesses


class Listener:
    """Gathers rings until somebody takes them. Thread-safe."""

    def __init__(self, callback: Callable[[int], None] | None = None, rounds_only: bool = False) -> None:
        self._condition = threading.Condition()
        self._rung: set[int] = set()
        self._callback = callback
        self._rounds_only = rounds_only
        self._is_over = False

    def hear(self, experiment_pk: int, needs_round: bool = True) -> None:
        if self._rounds_only and not needs_round:
            return
        with self._condition:
            self._rung.add(experiment_pk)
            self._condition.notify_all()
        if self._callback is not None:
            self._callback(experiment_pk)

    def wait(self, timeout: float) -> set[int]:
        """The experiments rung since the last wait; empty after ``timeout`` seconds of silence, and once it is over."""
        deadline = time.monotonic() + timeout
        with self._condition:
            while not self._rung and not self._is_over:
                left = deadline - time.monotonic()
                if left <= 0 or not self._condition.wait(left):
                    break
            rung, self._rung = self._rung, set()
            return rung

    def end_waits(self) -> None:
        """From now on nobody waits here: whoever does is let go at once. For any thread."""
        with self._condition:
            self._is_over = True
            self._condition.notify_all()

    def take(self) -> set[int]:
        """The experiments rung since the last time, without waiting."""
        return self.wait(0.0)


_listeners: list[Listener] = []
_guard = threading.Lock()


@contextmanager
def listening(callback: Callable[[int], None] | None = None, *, rounds_only: bool = False) -> Iterator[Listener]:
    """A listener for the time of the block. ``callback`` is called in the ringing thread and must not block.

    ``rounds_only``: what needs no round of a worker is not heard.
    """
    listener = Listener(callback, rounds_only)
    with _guard:
        _listeners.append(listener)
    if _rings_carry():
        _others.start()
    try:
        yield listener
    finally:
        with _guard:
            _listeners.remove(listener)


def ring(experiment_pk: int, *, needs_round: bool = True) -> None:
    """Ring now. Inside a transaction use ``ring_on_commit``: a ring before the commit finds old rows."""
    _ring_here(experiment_pk, needs_round)
    if _rings_carry():
        _others.ring(experiment_pk, needs_round)


def _ring_here(experiment_pk: int, needs_round: bool) -> None:
    with _guard:
        listeners = list(_listeners)
    for listener in listeners:
        listener.hear(experiment_pk, needs_round)


def ring_on_commit(experiment_pk: int, *, needs_round: bool = True) -> None:
    transaction.on_commit(lambda: ring(experiment_pk, needs_round=needs_round))


#: The way to and from the other processes; without NNIWEB_REDIS_URL it is never started.
_others = BellBetweenProcesses(lambda: get_channel_layer("bell"), _ring_here)


def _rings_carry() -> bool:
    """Whether there is a way to other processes."""
    return "bell" in getattr(settings, "CHANNEL_LAYERS", {})
